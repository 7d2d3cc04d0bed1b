export type Decision =
  /** `path` as in the manifest: no leading slash. */
  | { readonly kind: 'file'; readonly path: string; readonly status: 200 | 404 }
  /** Permanent. `location` is percent-encoded, begins with exactly one slash and has no query. */
  | { readonly kind: 'redirect'; readonly location: string }
  | { readonly kind: 'missing' }

const missing: Decision = { kind: 'missing' }
const file = (path: string, status: 200 | 404 = 200): Decision => ({ kind: 'file', path, status })

/**
 * Decides how a request for a path is answered (the specification's serving rules, addendum E8).
 *
 * @param path as {@link parseRequestPath} returns it
 * @param has whether the deploy contains a file; takes a manifest path
 */
export function decide(path: string, has: (path: string) => boolean): Decision {
  if (isReserved(path)) return missing
  if (unserved.has(path)) return has('404.html') ? file('404.html', 404) : missing
  const wanted = path.slice(1)
  if (path.endsWith('/')) return has(`${wanted}index.html`) ? file(`${wanted}index.html`) : fallback(has)
  if (has(wanted)) return file(wanted)
  if (hasExtension(wanted)) return has('404.html') ? file('404.html', 404) : missing
  if (has(`${wanted}.html`)) return file(`${wanted}.html`)
  if (has(`${wanted}/index.html`)) return { kind: 'redirect', location: `${encodePath(path)}/` }
  return fallback(has)
}

function fallback(has: (path: string) => boolean): Decision {
  if (has('404.html')) return file('404.html', 404)
  return has('index.html') ? file('index.html') : missing
}

/** Settings of the platform, which answer as if they were not published. */
const unserved: ReadonlySet<string> = new Set(['/plinth.json'])

/** The platform's own prefix, case-insensitive like Caddy's path matcher. */
const isReserved = (path: string) => /^\/__svc(?:\/|$)/i.test(path)

/** Whether the last segment has a dot that is not its first character. */
const hasExtension = (path: string) => path.indexOf('.', path.lastIndexOf('/') + 2) !== -1

/** Also encodes `?` and `#`, which `encodeURI` leaves and which would end the path. */
export const encodePath = (path: string) => encodeURI(path).replace(/[?#]/g, encodeURIComponent)

export interface RequestTarget {
  /** Decoded, NFC, begins with exactly one slash, no empty, `.` or `..` segment; a slash at the end stays. */
  readonly path: string
  /** The raw query: empty, or beginning with `?`. */
  readonly query: string
  /** The raw authority of a target in absolute form. */
  readonly authority?: string
}

const visibleAscii = /^[\x21-\x7e]*$/

/** Whether a path needs the full checks: it has escapes, bytes that are no visible ASCII, empty segments or dots. */
const needsCare = /[^\x21-\x7e]|[%\\]|\/\/|\/\.{1,2}(?:\/|$)/

/**
 * Parses the target of a request line, once: all later code sees only the result. Undefined when it must be
 * refused: not a path, unescaped bytes that need escapes, invalid escapes or UTF-8, a control character, a backslash,
 * a fragment, a `.` or `..` segment.
 */
export function parseRequestPath(raw: string): RequestTarget | undefined {
  if (raw.includes('#')) return undefined
  if (raw.charCodeAt(0) !== slash) return parseAbsoluteForm(raw)
  const end = raw.indexOf('?')
  const query = end === -1 ? '' : raw.slice(end)
  const rawPath = end === -1 ? raw : raw.slice(0, end)
  if (!needsCare.test(rawPath)) return { path: rawPath, query }
  const path = decodePath(rawPath)
  return path === undefined ? undefined : { path, query }
}

const slash = 0x2f

/** RFC 9112, 3.2.2. */
function parseAbsoluteForm(raw: string): RequestTarget | undefined {
  const [start, authority] = /^https?:\/\/([^/?]+)/i.exec(raw) ?? []
  if (start === undefined || authority === undefined) return undefined
  const rest = raw.slice(start.length)
  const target = parseRequestPath(rest.startsWith('/') ? rest : `/${rest}`)
  return target && { ...target, authority }
}

function decodePath(rawPath: string): string | undefined {
  if (!visibleAscii.test(rawPath)) return undefined
  let decoded: string
  try {
    decoded = decodeURIComponent(rawPath)
  } catch {
    return undefined
  }
  const path = decoded.normalize('NFC').replace(/\/{2,}/g, '/')
  if (/[\p{Cc}\\]/u.test(path)) return undefined
  return /\/\.{1,2}(?:\/|$)/.test(path) ? undefined : path
}
