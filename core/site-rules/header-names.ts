const cachingHeaders: ReadonlySet<string> = new Set(
  'age cache-control cdn-cache-control cloudflare-cdn-cache-control expires pragma surrogate-control warning'.split(' '),
)

/** Whether the header says how long a response is kept. */
export const isCachingHeader = (name: string) => cachingHeaders.has(name.toLowerCase())

/** Headers that the platform answers for, besides those of caching (addendum E32). */
const platformHeaders: ReadonlySet<string> = new Set(
  [
    'vary',
    'accept-ranges content-encoding content-length content-range date etag last-modified server via',
    'connection http2-settings keep-alive te trailer transfer-encoding upgrade',
    'allow alt-svc clear-site-data location retry-after set-cookie set-cookie2 www-authenticate basic-auth x-sendfile',
  ].flatMap((names) => names.split(' ')),
)
const platformPrefixes = ['plinth-', 'x-plinth-', 'x-accel-', 'proxy-', 'netlify-cdn-', 'vercel-cdn-']

/** RFC 9110, 5.6.2. */
const token = /^[!#$%&'*+.^`|~\w-]+$/
/** RFC 9110, 5.5, without the bytes above ASCII, which clients read in different ways. */
const fieldValue = /^[\t\x20-\x7e]*$/

/** Why a site cannot set a header; it follows the place. Undefined when it can. */
export function refusalOfHeader(name: string, value: string): string | undefined {
  if (!token.test(name)) return `has the name "${name.slice(0, 40)}", which is not valid for a header`
  const lower = name.toLowerCase()
  if (isCachingHeader(lower) || platformHeaders.has(lower) || platformPrefixes.some((prefix) => lower.startsWith(prefix))) {
    return `sets ${name.slice(0, 40)}, which only the platform sets`
  }
  if (lower === 'x-content-type-options' && value !== '' && !/^nosniff$/i.test(value))
    return 'sets X-Content-Type-Options to another value than nosniff'
  return fieldValue.test(value) ? undefined : `has a value of ${name.slice(0, 40)} with characters other than ASCII`
}
