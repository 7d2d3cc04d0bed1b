import { acceptedRanges } from './accept.ts'

/** Content codings in which the storage keeps variants of texts, the preferred ones first: brotli is the smallest at rest. */
export const encodings = ['br', 'zstd', 'gzip'] as const
export type Encoding = (typeof encodings)[number]

/** Variants that are made in the background after publishing; the gzip variant is made with the object itself. */
export const backgroundEncodings = ['br', 'zstd'] as const satisfies readonly Encoding[]
export type BackgroundEncoding = (typeof backgroundEncodings)[number]

/** Smaller files fit into one packet with gzip, too. */
export const minBackgroundBytes = 1024
/** At the highest levels, compressing a file of this size takes six seconds of processor time. */
export const maxBackgroundBytes = 4 * 1024 * 1024

/** Whether a text of this size may have variants that are made in the background. */
export const mayHaveBackgroundVariants = (size: number) => size >= minBackgroundBytes && size <= maxBackgroundBytes

/** Whether a background variant is worth keeping: it must save a twentieth of the smallest form that exists without it. */
export const savesTwentieth = (size: number, smallest: number) => size <= smallest * 0.95

/** `x-gzip` is the same as `gzip` (RFC 9110, 8.4.1.3). */
const names: Readonly<Record<Encoding, readonly string[]>> = { br: ['br'], zstd: ['zstd'], gzip: ['gzip', 'x-gzip'] }

/**
 * The encodings that an `Accept-Encoding` prefers to plain bytes, the most preferred first (RFC 9110, 12.5.3); of equal ones the first in
 * {@link encodings}. An item whose weight is malformed does not count. Plain bytes may follow them even when they are excluded: there is
 * nothing else to send.
 */
export function acceptedEncodings(header: string | undefined): Encoding[] {
  const ranges = acceptedRanges(header)
  const others = ranges.find(({ range }) => range === '*')
  const qualityOf = (wanted: readonly string[]) => (ranges.find(({ range }) => wanted.includes(range)) ?? others)?.quality ?? 0
  const plain = qualityOf(['identity'])
  return encodings
    .map((encoding) => ({ encoding, quality: qualityOf(names[encoding]) }))
    .filter(({ quality }) => quality > 0 && quality >= plain)
    .sort((a, b) => b.quality - a.quality)
    .map(({ encoding }) => encoding)
}
