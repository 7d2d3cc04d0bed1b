/** The usual form of a host: lower-case labels, the last one beginning with a letter, so that it is no IP address. */
const plainHost = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/
const endsAsAddress = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/
const maxHostLength = 253

/**
 * Returns the host name of a request: lower-case, in punycode, without the port and the final dot of a fully qualified name.
 * Undefined when the request must be refused: no Host header or several, an IP address, user information, or an invalid name.
 *
 * @param values every Host header of the request, its bytes decoded as Latin-1, as Node does
 */
export function parseHost(values: readonly string[]): string | undefined {
  const [raw] = values
  if (raw === undefined || values.length !== 1) return undefined
  const name = /^([^:]*?)\.?(?::\d{0,5})?$/.exec(raw)?.[1]
  if (name === undefined) return undefined
  if (name.length <= maxHostLength && plainHost.test(name)) return name
  const host = toAscii(name)
  if (host === undefined || host.length > maxHostLength || endsAsAddress.test(host)) return undefined
  return host.split('.').every((part) => label.test(part)) ? host : undefined
}

/** Undefined when it is no host. Characters that a URL parser would drop or take for the end of the host are refused first. */
function toAscii(name: string): string | undefined {
  const text = decodeUtf8(name)
  if (text === undefined || text === '' || /[\s\p{Cc}/\\?#@%[\]]/u.test(text)) return undefined
  return URL.parse(`http://${text}`)?.hostname
}

/** Undefined when the bytes are not valid UTF-8. Percent signs are left alone. */
function decodeUtf8(bytes: string): string | undefined {
  const escapeByte = (byte: string) => `%${byte.charCodeAt(0).toString(16)}`
  try {
    return bytes.replace(/[\x80-\xff]+/g, (run) => decodeURIComponent(run.replace(/./g, escapeByte)))
  } catch {
    return undefined
  }
}

/** The wildcard that covers a host: `*.` and what follows the first label. */
export const wildcardOf = (host: string) => `*${host.slice(host.indexOf('.'))}`
