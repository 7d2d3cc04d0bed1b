export type ArchiveFormat = 'tar.gz' | 'zip'

/** Detects the format by the first four bytes; undefined when it is not supported. An empty zip counts as a zip. */
export function sniffArchive(firstBytes: Uint8Array): ArchiveFormat | undefined {
  const [a, b, c, d] = firstBytes
  if (a === 0x1f && b === 0x8b) return 'tar.gz'
  if (a === 0x50 && b === 0x4b && ((c === 3 && d === 4) || (c === 5 && d === 6))) return 'zip'
  return undefined
}
