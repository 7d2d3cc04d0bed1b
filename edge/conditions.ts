/** What a client may already have: strong tags of the plain bytes and of their gzip form. */
export interface Tags {
  readonly plain: string
  readonly gzip: string
}

const tagPattern = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g

/** The tag of ours that an `If-None-Match` names, compared weakly (RFC 9110, 13.1.2); undefined when it names none. */
export function matchedTag(ifNoneMatch: string, tags: Tags): string | undefined {
  if (ifNoneMatch === tags.plain || ifNoneMatch.trim() === '*') return tags.plain
  if (ifNoneMatch === tags.gzip) return tags.gzip
  for (const [, , tag] of ifNoneMatch.matchAll(tagPattern)) {
    if (tag === tags.plain || tag === tags.gzip) return tag
  }
  return undefined
}

/** Whether an `If-Match` lets the request pass, compared strongly (RFC 9110, 13.1.1). */
export function passesIfMatch(ifMatch: string, tags: Tags): boolean {
  if (ifMatch.trim() === '*') return true
  return [...ifMatch.matchAll(tagPattern)].some(([, weak, tag]) => !weak && (tag === tags.plain || tag === tags.gzip))
}

/** Whether the `Accept-Encoding` allows gzip: named with a weight above zero, or covered by `*`. */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  let any = false
  for (const item of acceptEncoding.toLowerCase().split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim())
    const allowed = !parameters.some((parameter) => /^q\s*=\s*0(?:\.0*)?$/.test(parameter))
    if (coding === 'gzip' || coding === 'x-gzip') return allowed
    if (coding === '*') any = allowed
  }
  return any
}

/** Bytes of a file; both ends are inclusive. */
export interface Part {
  readonly start: number
  readonly end: number
}

const maxRangeHeaderBytes = 128

/**
 * Reads a `Range` of one part. Undefined when all bytes are to be sent: no header, several parts, another unit, bad syntax,
 * an overlong header, an empty file, or an `If-Range` that is not the strong tag of the plain bytes.
 */
export function parseRange(
  range: string | undefined,
  ifRange: string | undefined,
  size: number,
  plainTag: string,
): Part | 'unsatisfiable' | undefined {
  if (range === undefined || range.length > maxRangeHeaderBytes || size === 0) return undefined
  if (ifRange !== undefined && ifRange !== plainTag) return undefined
  const [, first = '', last = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(range) ?? []
  if (first === '' && last === '') return undefined
  if (first === '') return Number(last) === 0 ? 'unsatisfiable' : { start: Math.max(0, size - Number(last)), end: size - 1 }
  if (last !== '' && Number(last) < Number(first)) return undefined
  if (Number(first) >= size) return 'unsatisfiable'
  return { start: Number(first), end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
}
