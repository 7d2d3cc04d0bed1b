import { orderedPlatformNames } from '../acme/platform-names.ts'
import type { Config } from '../config.ts'

/** The names and IP addresses of the api. */
export const apiHosts = ({ urls }: Config) => [
  ...new Set([new URL(urls.base).hostname, new URL(urls.mcp).hostname, 'localhost', '127.0.0.1', '::1'].map(withoutBrackets)),
]

const withoutBrackets = (hostname: string) => hostname.replace(/^\[(.*)\]$/, '$1')

/** Every name and IP address of the platform; `*.` stands for one label. */
export function platformNames(config: Config): string[] {
  const preview = new URL(config.urls.preview).hostname
  const { platformDomain } = config.urls
  return [...new Set([...apiHosts(config), preview, `*.${preview}`, platformDomain, `*.${platformDomain}`])]
}

/**
 * The names with a certificate of Caddy's own authority: all for which none is ordered. Caddy looks for these before it asks the edge, so no
 * other name may be among them.
 */
export function internalNames(config: Config): string[] {
  const ordered = orderedPlatformNames(config)
  return platformNames(config).filter((name) => !ordered.includes(name))
}
