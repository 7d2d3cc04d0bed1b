import { AppError, invalid } from '../../core/errors.ts'
import type { LinkedCopy } from '../../core/link-targets.ts'
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
  /** Called, after all files, for each copy that a link stands for. */
  readonly onCopy: (copy: LinkedCopy) => Promise<void>
}

/** The state that the reader of a format works with: entries go to `filter`, and bytes through `countBytes`. */
export interface ArchiveReading extends ArchiveOptions {
  readonly filter: EntryFilter
  readonly countEntry: () => void
  /** Counts bytes of the file with the path. @throws AppError above the limit */
  readonly countBytes: (path: string, bytes: number) => void
  /** Makes the copies that links stand for, which count like other files. @throws AppError above the limits */
  readonly copyLinks: () => Promise<void>
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
  const filter = createEntryFilter()
  const sizes = new Map<string, number>()

  function countEntry(): void {
    entries += 1
    if (entries > options.maxEntries) throw tooManyEntries(options.maxEntries)
  }

  function countBytes(path: string, more: number): void {
    sizes.set(path, (sizes.get(path) ?? 0) + more)
    bytes += more
    if (bytes > options.maxBytes) throw new AppError('conflict', options.overMaxBytes)
  }

  return {
    ...options,
    filter,
    countEntry,
    countBytes,
    async copyLinks() {
      for (const copy of filter.acceptCopies()) {
        countEntry()
        countBytes(copy.path, sizes.get(copy.from) ?? 0)
        await options.onCopy(copy)
      }
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
