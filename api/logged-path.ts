import { maskSecrets } from '../core/masking.ts'

/** The path of a request for the log, without secrets: deploy hooks, links to files, and keys that are in the wrong place. */
export function loggedPath(path: string): string {
  if (/^\/+hooks/i.test(path) && !/^\/hooks\/git\/[^/]*$/.test(path)) return '/hooks/…'
  if (/^\/+__svc\/+d\//i.test(path)) return '/__svc/d/…'
  return maskSecrets(path)
}
