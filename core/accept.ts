/** Longer headers than browsers send are not read. */
const maxHeaderLength = 1000

export interface AcceptedRange {
  /** A media range, a language range, or a content coding, in lower case. */
  readonly range: string
  /** From 0, not acceptable, to 1. */
  readonly quality: number
}

/** The ranges of an `Accept`, `Accept-Language` or `Accept-Encoding` in their order (RFC 9110, 12.4.2), without those that have other parameters. */
export function acceptedRanges(header: string | undefined): AcceptedRange[] {
  if (header === undefined || header.length > maxHeaderLength) return []
  return header
    .toLowerCase()
    .split(',')
    .flatMap((item) => {
      const [range = '', weight = 'q=1'] = item.split(';').map((part) => part.trim())
      const quality = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.exec(weight)?.[1]
      return quality === undefined ? [] : [{ range, quality: Number(quality) }]
    })
}

const html = ['text/html', 'text/*', '*/*']
const json = ['application/json', 'application/*', '*/*']

/**
 * Whether an `Accept` asks for HTML rather than for JSON: a browser that shows the answer, and not a script that reads it. Of two types with the
 * same quality the one that is named more exactly is preferred, then the one that is named first, then JSON.
 */
export function prefersHtml(accept: string | undefined): boolean {
  const ranges = acceptedRanges(accept)
  const [forHtml, forJson] = [preferenceOf(html, ranges), preferenceOf(json, ranges)]
  if (forHtml.quality === 0) return false
  if (forHtml.quality !== forJson.quality) return forHtml.quality > forJson.quality
  if (forHtml.exactness !== forJson.exactness) return forHtml.exactness < forJson.exactness
  return forHtml.position < forJson.position
}

/** @param names the ranges that contain the type, the most exact first */
function preferenceOf(names: readonly string[], ranges: readonly AcceptedRange[]) {
  for (const [exactness, name] of names.entries()) {
    const position = ranges.findIndex(({ range }) => range === name)
    const quality = ranges[position]?.quality
    if (quality !== undefined) return { quality, exactness, position }
  }
  return { quality: 0, exactness: names.length, position: ranges.length }
}
