import { LRUCache } from 'lru-cache'
import { cachePolicy } from '../core/caching.ts'
import type { Encoding } from '../core/encodings.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import { compressible } from '../core/media.ts'
import type { PreparedRules } from '../core/site-rules/prepare.ts'
import { findEntry } from '../infra/cas/manifests.ts'
import { mediaTypeOf } from '../infra/media.ts'
import { type ETags, etagsOf } from './conditions.ts'
import { withHeaders } from './site-headers.ts'

type VariantHeaders = Readonly<Record<Encoding, readonly string[]>>

/** Of files without variants. */
export const noVariants: VariantHeaders = { br: [], zstd: [], gzip: [] }

/** A published file with everything that its responses have in common. Headers are flat lists of names and values. */
export interface SiteFile extends ManifestEntry {
  readonly etags: ETags
  /** Whether it is text, of which the storage may keep variants. */
  readonly mayHaveVariants: boolean
  /** Headers of every response with the plain bytes, without Content-Length. */
  readonly plainHeaders: readonly string[]
  /** Headers of every response with a variant, without Content-Length. */
  readonly variantHeaders: VariantHeaders
  /** Headers of a 304, without the ETag. */
  readonly unchangedHeaders: readonly string[]
}

export interface SiteFiles {
  readonly rules: PreparedRules | undefined
  has(path: string): boolean
  /**
   * @param at the path of the request, whose headers of `_headers` the file gets
   * @param left the names of headers, in lower case, that it does not get
   * @throws when the deploy has no such file
   */
  get(path: string, at: string, left?: ReadonlySet<string>): SiteFile
}

/** Roughly what a prepared file takes besides its path: five lists of headers, four ETags, the key. */
const preparedBytes = 2000

/** Prepares files of manifests as they are asked for, and remembers the latest ones of all manifests together. */
export function createFileCache(maxBytes: number) {
  const files = new LRUCache<string, SiteFile>({ maxSize: maxBytes, sizeCalculation: sizeInMemory })
  return (manifestSha256: string, entries: Buffer, rules?: PreparedRules): SiteFiles => {
    const find = (path: string) => {
      const key = `${manifestSha256}/${path}`
      const known = files.get(key)
      if (known) return known
      const entry = findEntry(entries, path)
      if (!entry) return undefined
      const file = prepareFile(entry)
      files.set(key, file)
      return file
    }
    const get = (path: string) => {
      const file = find(path)
      if (!file) throw new Error(`the deploy has no file ${path}`)
      return file
    }
    return {
      rules,
      has: (path) => find(path) !== undefined,
      get(path, at, left) {
        const headersFor = rules?.headersFor
        if (!headersFor) return get(path)
        if (left || !isOwnAddress(path, at)) return withHeaders(get(path), headersFor(at), left)
        // rules on the query may answer with different files at one path; those at their own addresses differ in length
        const key = `${manifestSha256}?${path.length}${at}`
        const known = files.get(key)
        if (known) return known
        const file = withHeaders(get(path), headersFor(at))
        files.set(key, file)
        return file
      },
    }
  }
}

/** Whether the request asks for this very file: visitors can invent any number of other paths, of which nothing is remembered. */
export const isOwnAddress = (path: string, at: string) =>
  path === at.slice(1) || path === `${at.slice(1)}.html` || (at.endsWith('/') && path === `${at.slice(1)}index.html`)

const sizeInMemory = ({ path, plainHeaders, variantHeaders, unchangedHeaders }: SiteFile) =>
  preparedBytes +
  4 * path.length +
  [plainHeaders, ...Object.values(variantHeaders), unchangedHeaders].flat().reduce((sum, text) => sum + text.length, 0)

function prepareFile(entry: ManifestEntry): SiteFile {
  const type = mediaTypeOf(entry.path)
  const mayHaveVariants = compressible(type)
  const etags = etagsOf(entry.sha256)
  const vary = mayHaveVariants ? ['Vary', 'Accept-Encoding'] : []
  const cacheControl = ['Cache-Control', cachePolicy(entry.path)]
  const headers = ['Content-Type', type, ...cacheControl, ...vary, 'X-Content-Type-Options', 'nosniff']
  const encoded = (encoding: Encoding) => [...headers, 'ETag', etags[encoding], 'Content-Encoding', encoding]
  return {
    ...entry,
    etags,
    mayHaveVariants,
    plainHeaders: [...headers, 'ETag', etags.plain, 'Accept-Ranges', 'bytes'],
    variantHeaders: mayHaveVariants ? { br: encoded('br'), zstd: encoded('zstd'), gzip: encoded('gzip') } : noVariants,
    unchangedHeaders: [...cacheControl, ...vary],
  }
}
