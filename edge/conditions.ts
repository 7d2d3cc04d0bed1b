import { LRUCache } from 'lru-cache'
import { acceptedEncodings, type Encoding } from '../core/encodings.ts'

/** The strong ETags of a file: of its plain bytes and of their variants. */
export type ETags = Readonly<Record<'plain' | Encoding, string>>

export const etagsOf = (sha256: string): ETags => new FileETags(sha256)

/** Makes each ETag when it is first needed: a file is asked for with one or two of them. */
class FileETags implements ETags {
  readonly #sha256: string
  #plain: string | undefined
  #br: string | undefined
  #zstd: string | undefined
  #gzip: string | undefined

  constructor(sha256: string) {
    this.#sha256 = sha256
  }
  get plain() {
    this.#plain ??= `"${this.#sha256}"`
    return this.#plain
  }
  get br() {
    this.#br ??= `"${this.#sha256}-br"`
    return this.#br
  }
  get zstd() {
    this.#zstd ??= `"${this.#sha256}-zstd"`
    return this.#zstd
  }
  get gzip() {
    this.#gzip ??= `"${this.#sha256}-gzip"`
    return this.#gzip
  }
}

const etagPattern = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g

/** The ETag that an `If-None-Match` matches, compared weakly (RFC 9110, 13.1.2); undefined when it matches none. */
export function matchedETag(ifNoneMatch: string, etags: ETags): string | undefined {
  if (ifNoneMatch === etags.plain || ifNoneMatch.trim() === '*') return etags.plain
  if (isOneOf(etags, ifNoneMatch)) return ifNoneMatch
  for (const [, , etag] of ifNoneMatch.matchAll(etagPattern)) {
    if (isOneOf(etags, etag)) return etag
  }
  return undefined
}

/** Whether an `If-Match` lets the request pass, compared strongly (RFC 9110, 13.1.1). */
export function passesIfMatch(ifMatch: string, etags: ETags): boolean {
  if (ifMatch.trim() === '*') return true
  return [...ifMatch.matchAll(etagPattern)].some(([, weak, etag]) => !weak && isOneOf(etags, etag))
}

const isOneOf = (etags: ETags, etag: string | undefined) =>
  etag === etags.br || etag === etags.gzip || etag === etags.plain || etag === etags.zstd

/** The encodings that a client prefers to plain bytes, the most preferred first. */
export interface PreferredEncodings {
  readonly all: readonly Encoding[]
  /** Without those whose variants are made in the background. */
  readonly madeAtOnce: readonly Encoding[]
}

/** Of the few texts that browsers send. */
const preferences = new LRUCache<string, PreferredEncodings>({ max: 100 })
const maxRememberedLength = 200
const none: PreferredEncodings = { all: [], madeAtOnce: [] }

/** As {@link acceptedEncodings}. What clients usually send is read once. */
export function preferredEncodings(acceptEncoding: string | undefined): PreferredEncodings {
  if (acceptEncoding === undefined) return none
  const known = preferences.get(acceptEncoding)
  if (known) return known
  const all = acceptedEncodings(acceptEncoding)
  const preferred = { all, madeAtOnce: all.filter((encoding) => encoding === 'gzip') }
  if (acceptEncoding.length <= maxRememberedLength) preferences.set(acceptEncoding, preferred)
  return preferred
}

/** Bytes of a file; both ends are inclusive. */
export interface Part {
  readonly start: number
  readonly end: number
}

const maxRangeHeaderBytes = 128

/**
 * Reads a `Range` of one part. Undefined when all bytes are to be sent: no header, several parts, another unit, bad syntax,
 * an overlong header, an empty file, or an `If-Range` that is not the strong ETag of the plain bytes.
 */
export function parseRange(
  range: string | undefined,
  ifRange: string | undefined,
  size: number,
  plainETag: string,
): Part | 'unsatisfiable' | undefined {
  if (range === undefined || range.length > maxRangeHeaderBytes || size === 0) return undefined
  if (ifRange !== undefined && ifRange !== plainETag) return undefined
  const [, first = '', last = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(range) ?? []
  if (first === '' && last === '') return undefined
  if (first === '') return Number(last) === 0 ? 'unsatisfiable' : { start: Math.max(0, size - Number(last)), end: size - 1 }
  if (last !== '' && Number(last) < Number(first)) return undefined
  if (Number(first) >= size) return 'unsatisfiable'
  return { start: Number(first), end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
}
