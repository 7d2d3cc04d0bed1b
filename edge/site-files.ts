import { LRUCache } from 'lru-cache'
import type { Encoding } from '../core/encodings.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import type { PreparedRules } from '../core/site-rules/prepare.ts'
import type { ETags } from './conditions.ts'
import { prepareFile } from './prepared-file.ts'
import { withHeaders } from './site-headers.ts'

export type VariantHeaders = Readonly<Record<Encoding, readonly string[]>>

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

/** Roughly what a prepared file takes besides its path: its lists of headers and ETags, of which most are never needed, and the key. */
const preparedBytes = 1500

/** Prepares files of manifests as they are asked for, and remembers the latest ones of all manifests together. */
export function createFileCache(maxBytes: number) {
  const cache = new LRUCache<string, SiteFile>({ maxSize: maxBytes })
  return (manifestSha256: string, findEntry: FindEntry, rules?: PreparedRules): SiteFiles =>
    new CachedFiles(cache, manifestSha256, findEntry, rules)
}

type FindEntry = (path: string) => ManifestEntry | undefined

/** The files of one manifest. A class, because thousands are remembered and each function of its own would be an object. */
class CachedFiles implements SiteFiles {
  readonly rules: PreparedRules | undefined
  readonly #cache: LRUCache<string, SiteFile>
  readonly #manifestSha256: string
  readonly #findEntry: FindEntry

  constructor(cache: LRUCache<string, SiteFile>, manifestSha256: string, findEntry: FindEntry, rules: PreparedRules | undefined) {
    this.rules = rules
    this.#cache = cache
    this.#manifestSha256 = manifestSha256
    this.#findEntry = findEntry
  }

  has(path: string): boolean {
    return this.#find(path) !== undefined
  }

  get(path: string, at: string, left?: ReadonlySet<string>): SiteFile {
    const headersFor = this.rules?.headersFor
    if (!headersFor) return this.#get(path)
    if (left || !isOwnAddress(path, at)) return withHeaders(this.#get(path), headersFor(at), left)
    // rules on the query may answer with different files at one path; those at their own addresses differ in length
    const key = `${this.#manifestSha256}?${path.length}${at}`
    const known = this.#cache.get(key)
    if (known) return known
    const file = withHeaders(this.#get(path), headersFor(at))
    this.#cache.set(key, file, { size: sizeWithHeaders(file) })
    return file
  }

  #get(path: string): SiteFile {
    const file = this.#find(path)
    if (!file) throw new Error(`the deploy has no file ${path}`)
    return file
  }

  #find(path: string): SiteFile | undefined {
    const key = `${this.#manifestSha256}/${path}`
    const known = this.#cache.get(key)
    if (known) return known
    const entry = this.#findEntry(path)
    if (!entry) return undefined
    const file = prepareFile(entry)
    this.#cache.set(key, file, { size: sizeOf(file) })
    return file
  }
}

/** Whether the request asks for this very file: visitors can invent any number of other paths, of which nothing is remembered. */
export const isOwnAddress = (path: string, at: string) =>
  path === at.slice(1) || path === `${at.slice(1)}.html` || (at.endsWith('/') && path === `${at.slice(1)}index.html`)

const lengthOf = (texts: readonly string[]) => texts.reduce((sum, text) => sum + text.length, 0)
const sizeOf = ({ path }: SiteFile) => preparedBytes + 4 * path.length
/** With lists of its own. */
const sizeWithHeaders = (file: SiteFile) => {
  const { plainHeaders, variantHeaders, unchangedHeaders } = file
  const lists = [plainHeaders, variantHeaders.br, variantHeaders.zstd, variantHeaders.gzip, unchangedHeaders]
  return sizeOf(file) + lists.reduce((sum, list) => sum + lengthOf(list), 0)
}
