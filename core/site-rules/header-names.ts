/** Headers with one value: two values of one name, joined by a comma, are no value that clients take. */
const singleValued: ReadonlySet<string> = new Set(
  [
    'access-control-allow-credentials access-control-allow-origin access-control-max-age',
    'content-disposition content-location content-type refresh sourcemap x-sourcemap',
    'cross-origin-embedder-policy cross-origin-embedder-policy-report-only cross-origin-opener-policy',
    'cross-origin-opener-policy-report-only cross-origin-resource-policy origin-agent-cluster referrer-policy strict-transport-security',
    'x-content-type-options x-dns-prefetch-control x-download-options x-frame-options x-permitted-cross-domain-policies',
    'x-ua-compatible x-xss-protection',
  ].flatMap((names) => names.split(' ')),
)

/** Whether the last value of the header replaces those before it, instead of being joined to them. */
export const isSingleValued = (name: string) => singleValued.has(name.toLowerCase())

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

export const isHeaderName = (text: string) => token.test(text)

/** Why a site cannot set a header; it follows the place. Undefined when it can. */
export function refusalOfHeader(name: string, value: string): string | undefined {
  if (!isHeaderName(name)) return `has the name "${name.slice(0, 40)}", which is not valid for a header`
  const lower = name.toLowerCase()
  if (isCachingHeader(lower) || platformHeaders.has(lower) || platformPrefixes.some((prefix) => lower.startsWith(prefix))) {
    return `sets ${name.slice(0, 40)}, which only the platform sets`
  }
  if (lower === 'x-content-type-options' && value !== '' && !/^nosniff$/i.test(value))
    return 'sets X-Content-Type-Options to another value than nosniff'
  return fieldValue.test(value) ? undefined : `has a value of ${name.slice(0, 40)} with characters other than ASCII`
}
