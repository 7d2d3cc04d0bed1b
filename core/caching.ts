/** Values of `Cache-Control`. Pages are revalidated each time, so that an activation shows at once. */
const cachePolicies = { page: 'no-cache', hashed: 'max-age=31536000, immutable', other: 'max-age=300' } as const
type CachePolicy = (typeof cachePolicies)[keyof typeof cachePolicies]

/** How long browsers and proxies may cache a file (the specification's table, addendum E8). */
export function cachePolicy(path: string): CachePolicy {
  if (isPage(path)) return cachePolicies.page
  return isHashed(path) ? cachePolicies.hashed : cachePolicies.other
}

const isPage = (path: string) => /\.html$/i.test(path)

/** Whether a file is named after its content, so that it never changes (addendum E8). */
export function isHashed(path: string): boolean {
  if (isPage(path)) return false
  const name = path.slice(path.lastIndexOf('/') + 1)
  return hashedFolder.test(path) || hashCandidates(name).some(isContentHash)
}

/** Folders whose files bundlers name after their content. */
const hashedFolder = /(?:^|\/)(?:_astro|_next\/static|_nuxt|_app\/immutable)\//

/** The part of a file name between a separator (`.`, `-`, `_`) and its extension, or its two extensions as in `.js.map`. */
function hashCandidates(name: string): string[] {
  const parts = name.split('.')
  return [parts.length - 2, parts.length - 3].flatMap((index) => {
    const part = index < 0 ? '' : (parts[index] ?? '')
    const tails = [...part.matchAll(/[-_]/g)].map((separator) => part.slice(separator.index + 1))
    return index > 0 ? [part, ...tails] : tails
  })
}

const hex = /^(?:[0-9a-f]{8,}|[0-9A-F]{8,})$/
/** A hash as esbuild writes it. */
const base32 = /^[A-Z2-7]{8}$/
const base62 = /^[A-Za-z0-9]{8,22}$/
/** A hash as Rollup and Vite write it. Only this length: a longer text with separators is a title, such as `Report-2-final`. */
const base64Url = /^[A-Za-z0-9_-]{8}$/
const wordAndYear = /^[A-Za-z]+(?:19|20)\d\d$/

/** Dates and plain words are not hashes: visitors would keep an old version of such a file for a year. */
function isContentHash(token: string): boolean {
  if (!/\d/.test(token) || !/[A-Za-z]/.test(token) || wordAndYear.test(token)) return false
  if (hex.test(token) || base32.test(token)) return true
  if (base62.test(token)) return mixesCases(token)
  return base64Url.test(token) && token.split(/[-_]/).some(mixesCases)
}

const mixesCases = (run: string) => /\d/.test(run) && /[a-z]/.test(run) && /[A-Z]/.test(run)
