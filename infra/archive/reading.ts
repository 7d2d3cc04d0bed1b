import { AppError, invalid } from '../../core/errors.ts'
import { createEntryFilter, type EntryFilter } from './entry-filter.ts'
import { printable } from './skipped-paths.ts'

export interface ArchiveFile {
  /** Normalised, relative, unique, inside the tree, and never below another file. */
  readonly path: string
  readonly executable: boolean
  /** Must be read to its end. It throws an AppError when the archive turns out to be broken or too large. */
  readonly bytes: AsyncIterable<Buffer>
}

export interface ArchiveOptions {
  /** The most entries, of any kind. */
  readonly maxEntries: number
  /** The most bytes of all files that are not skipped. */
  readonly maxBytes: number
  /** The refusal of an archive with more than `maxBytes`. */
  readonly overMaxBytes: string
  /** Called for one file after the other. */
  readonly onFile: (file: ArchiveFile) => Promise<void>
}

/** The state that the reader of a format works with: entries go to `filter`, and bytes through `countBytes`. */
export interface ArchiveReading extends ArchiveOptions {
  readonly filter: EntryFilter
  readonly countEntry: () => void
  /** Counts bytes of files. @throws AppError above the limit */
  readonly countBytes: (bytes: number) => void
  /** Counts all inflated bytes, including skipped entries. @throws AppError that names the file when they are out of proportion */
  readonly countInflated: (bytes: number, file: string | undefined) => void
}

// deflate shrinks by 1032 at most, and only uniform bytes come near; a small archive may do so without harm
const maxRatio = 1000
const harmlessBytes = 64 * 1024 * 1024

/** @param size the size of the archive in bytes */
export function startReading(size: number, options: ArchiveOptions): ArchiveReading {
  let entries = 0
  let bytes = 0
  let inflated = 0
  return {
    ...options,
    filter: createEntryFilter(),
    countEntry() {
      entries += 1
      if (entries > options.maxEntries) throw tooManyEntries(options.maxEntries)
    },
    countBytes(more) {
      bytes += more
      if (bytes > options.maxBytes) throw new AppError('conflict', options.overMaxBytes)
    },
    countInflated(more, file) {
      inflated += more
      if (inflated > 2 * options.maxBytes + harmlessBytes) throw new AppError('conflict', options.overMaxBytes)
      if (inflated > harmlessBytes && inflated > size * maxRatio) {
        throw zipBomb(file)
      }
    },
  }
}

export const tooManyEntries = (maxEntries: number) =>
  new AppError('conflict', `the archive has more than ${maxEntries} entries; leave out what the site does not need`)

function zipBomb(file: string | undefined) {
  const found = file === undefined ? 'the archive is' : `at ${printable(file)} the archive turns out to be`
  return invalid(`${found} a zip bomb: it inflates to more than ${maxRatio} times its size; leave out the file that does so`)
}
