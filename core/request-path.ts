const visibleAscii = /^[\x21-\x7e]*$/

/** Also encodes `?` and `#`, which `encodeURI` leaves and which would end the path. */
export const encodePath = (path: string) => encodeURI(path).replace(/[?#]/g, encodeURIComponent)

/** Makes a raw query fit for a header; escapes stay as they are. */
export const encodeQuery = (query: string) =>
  visibleAscii.test(query) ? query : query.toWellFormed().replace(/[^\x21-\x7e]/gu, encodeURIComponent)

export interface RequestTarget {
  /** Decoded, NFC, begins with exactly one slash, no empty, `.` or `..` segment; a slash at the end stays. */
  readonly path: string
  /** The raw query: empty, or beginning with `?`. */
  readonly query: string
  /** The raw authority of a target in absolute form. */
  readonly authority?: string
}

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
