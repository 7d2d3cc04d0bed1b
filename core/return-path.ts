import { gatePaths } from './visits.ts'

/** Longer addresses are not returned to. */
export const maxReturnLength = 2048
/** A host only to resolve against; it is never sent. */
const base = 'http://site.invalid'

/**
 * The path, with its query, to which a visitor returns after logging in: `/` unless the text is a path of the same site. Redirects go to it, so it
 * can neither name another host nor a path of the platform, except the one that leads on to a permanent link. All of it is ASCII.
 */
export function returnPath(to: string | undefined): string {
  // browsers drop tabs and line ends, and take a backslash for a slash, so that `/\t/host` and `/\host` would name another host
  if (to === undefined || to.length > maxReturnLength || !to.startsWith('/') || /[\\\p{Cc}]/u.test(to)) return '/'
  const url = URL.parse(to, base)
  if (url?.origin !== base) return '/'
  const path = url.pathname + url.search
  // removing `/.` from `/.//host` leaves the address of another host
  if (path.startsWith('//') || path.length > 3 * maxReturnLength || isOfPlatform(url.pathname)) return '/'
  return path
}

const isOfPlatform = (pathname: string) => pathname !== gatePaths.ticket && /^\/+__svc(?:\/|$)/i.test(decoded(pathname))

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
