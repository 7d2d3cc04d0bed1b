import { cachePolicy } from '../core/caching.ts'
import type { Encoding } from '../core/encodings.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import { compressible } from '../core/media.ts'
import { mediaTypeOf } from '../infra/media.ts'
import { type ETags, etagsOf } from './conditions.ts'
import type { SiteFile, VariantHeaders } from './site-files.ts'

/** Of files without variants. */
export const noVariants: VariantHeaders = { br: [], zstd: [], gzip: [] }

const vary = ['Vary', 'Accept-Encoding']

/** Prepares a file of a manifest. What only some responses need is made for the first of them: it would be most of the memory of a file. */
export function prepareFile({ path, sha256, size }: ManifestEntry): SiteFile {
  const type = mediaTypeOf(path)
  const mayHaveVariants = compressible(type)
  const common: Common = { type, unchanged: unchangedHeaders(cachePolicy(path), mayHaveVariants), etags: etagsOf(sha256) }
  return new PreparedFile({ path, sha256, size }, mayHaveVariants, common)
}

/** What the lists of headers of a file are made of. */
interface Common {
  readonly type: string
  readonly unchanged: readonly string[]
  readonly etags: ETags
}

// lists are joined by `concat`, because a list that is put together with `...` takes twice the memory
const headersOf = ({ type, unchanged }: Common, etag: string) =>
  ['Content-Type', type].concat(unchanged, 'X-Content-Type-Options', 'nosniff', 'ETag', etag)

/** The lists for variants, by their encodings. */
class PreparedVariants implements VariantHeaders {
  readonly #common: Common
  #br: readonly string[] | undefined
  #zstd: readonly string[] | undefined
  #gzip: readonly string[] | undefined

  constructor(common: Common) {
    this.#common = common
  }
  get br() {
    this.#br ??= this.#listOf('br')
    return this.#br
  }
  get zstd() {
    this.#zstd ??= this.#listOf('zstd')
    return this.#zstd
  }
  get gzip() {
    this.#gzip ??= this.#listOf('gzip')
    return this.#gzip
  }
  #listOf(encoding: Encoding) {
    return headersOf(this.#common, this.#common.etags[encoding]).concat('Content-Encoding', encoding)
  }
}

class PreparedFile implements SiteFile {
  readonly path: string
  readonly sha256: string
  readonly size: number
  readonly mayHaveVariants: boolean
  readonly variantHeaders: VariantHeaders
  readonly #common: Common
  #plain: readonly string[] | undefined

  constructor({ path, sha256, size }: ManifestEntry, mayHaveVariants: boolean, common: Common) {
    this.path = path
    this.sha256 = sha256
    this.size = size
    this.mayHaveVariants = mayHaveVariants
    this.variantHeaders = mayHaveVariants ? new PreparedVariants(common) : noVariants
    this.#common = common
  }
  get etags() {
    return this.#common.etags
  }
  get plainHeaders() {
    this.#plain ??= headersOf(this.#common, this.#common.etags.plain).concat('Accept-Ranges', 'bytes')
    return this.#plain
  }
  get unchangedHeaders() {
    return this.#common.unchanged
  }
}

/** By policy: few lists for all files. */
const unchangedLists = new Map<string, { readonly plain: readonly string[]; readonly varying: readonly string[] }>()

function unchangedHeaders(policy: string, mayHaveVariants: boolean): readonly string[] {
  const plain = ['Cache-Control', policy]
  const lists = unchangedLists.get(policy) ?? { plain, varying: plain.concat(vary) }
  unchangedLists.set(policy, lists)
  return mayHaveVariants ? lists.varying : lists.plain
}
