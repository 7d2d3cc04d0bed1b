import { crc32 } from 'node:zlib'
import { type Entry, fromFdPromise, getFileNameLowLevel, type ZipFile } from 'yauzl'
import { AppError, invalid } from '../../core/errors.ts'
import { notRegular } from '../../core/skipped-paths.ts'
import { type ArchiveReading, tooManyEntries } from './reading.ts'

const typeMask = 0o170_000
const regularType = 0o100_000
const folderType = 0o040_000

/** Reads a zip by its central directory. The caller keeps the file descriptor. */
export async function readZip(fd: number, reading: ArchiveReading): Promise<void> {
  const { filter } = reading
  const zip = await readable(
    fromFdPromise(fd, {
      autoClose: false,
      lazyEntries: true,
      // names stay bytes: decoded, one bad name would end the whole archive
      decodeStrings: false,
      validateEntrySizes: true,
    }),
  )
  if (zip.entryCount > reading.maxEntries) throw tooManyEntries(reading.maxEntries)
  const entries = zip.eachEntry()
  for (let next = await readable(entries.next()); !next.done; next = await readable(entries.next())) {
    const entry = next.value
    reading.countEntry()
    const name = getFileNameLowLevel(entry.generalPurposeBitFlag, entry.fileName as unknown as Buffer, entry.extraFields, true)
    const mode = entry.externalFileAttributes >>> 16
    const type = mode & typeMask
    if (name.endsWith('/') || type === folderType) {
      filter.passFolder(name)
      continue
    }
    const path = type === 0 || type === regularType ? filter.acceptFile(name) : filter.skip(name, notRegular)
    if (path === undefined) continue
    if (entry.isEncrypted()) throw invalid(`${path} in the zip is encrypted; pack the folder without a password`)
    await reading.onFile({ path, executable: (mode & 0o111) !== 0, bytes: contentOf(zip, entry, path, reading) })
  }
}

/** Compares the checksum, because yauzl compares only the size. */
async function* contentOf(zip: ZipFile, entry: Entry, path: string, reading: ArchiveReading): AsyncGenerator<Buffer> {
  let sum = 0
  try {
    for await (const chunk of (await zip.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
      reading.countInflated(chunk.length, path)
      reading.countBytes(chunk.length)
      sum = crc32(chunk, sum)
      yield chunk
    }
  } catch (error) {
    throw unreadable(error)
  }
  if (sum !== entry.crc32) throw damaged(`${path} does not match its checksum`)
}

async function readable<T>(step: Promise<T>): Promise<T> {
  try {
    return await step
  } catch (error) {
    throw unreadable(error)
  }
}

/** Everything that yauzl and zlib throw is about the content, except errors of reading the file. */
function unreadable(error: unknown): unknown {
  const ours = error instanceof AppError || !(error instanceof Error) || 'syscall' in error
  return ours ? error : damaged(error.message)
}

const damaged = (why: string) => invalid(`the zip is damaged, or of a kind that cannot be read (${why}); pack the folder again`)
