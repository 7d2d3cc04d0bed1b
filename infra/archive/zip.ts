import { isUtf8 } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { type Entry, fromFdPromise, getFileNameLowLevel, type ZipFile } from 'yauzl'
import { AppError, invalid } from '../../core/errors.ts'
import { linkRefusals } from '../../core/link-targets.ts'
import { notRegular } from '../../core/skipped-paths.ts'
import { type ArchiveReading, tooManyEntries } from './reading.ts'
import { printable } from './skipped-paths.ts'

const typeMask = 0o170_000
const regularType = 0o100_000
const folderType = 0o040_000
const linkType = 0o120_000
/** The attribute of DOS, which archivers of Windows set instead of a type. */
const dosFolder = 0x10
/** The flag of an entry whose name is UTF-8. */
const utf8Name = 0x800
/** Longer texts of links are no paths. */
const longestLink = 4096

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
  const entries: NamedEntry[] = []
  const read = zip.eachEntry()
  for (let next = await readable(read.next()); !next.done; next = await readable(read.next())) {
    reading.countEntry()
    entries.push({ entry: next.value, name: nameOf(next.value) })
  }
  const rename = separatorsOf(entries)
  for (const { entry, name: written } of entries) {
    const name = rename(written)
    const mode = entry.externalFileAttributes >>> 16
    const type = mode & typeMask
    const isDosFolder = type === 0 && (entry.externalFileAttributes & dosFolder) !== 0 && entry.uncompressedSize === 0
    if (name.endsWith('/') || type === folderType || isDosFolder) {
      filter.passFolder(name)
      continue
    }
    if (type === linkType) {
      await keepLink(zip, entry, name, reading)
      continue
    }
    const path = type === 0 || type === regularType ? filter.acceptFile(name) : filter.skip(name, notRegular)
    if (path === undefined) continue
    if (entry.isEncrypted()) throw encrypted(path)
    const bytes = contentOf(zip, entry, { shown: path, counted: path }, reading)
    await reading.onFile({ path, executable: (mode & 0o111) !== 0, bytes })
  }
}

interface NamedEntry {
  readonly entry: Entry
  readonly name: string
}

/**
 * Archivers of Linux and macOS write UTF-8 without setting its flag. Text in code page 437, which the format means then, is never UTF-8 by
 * accident once it has a character outside of ASCII.
 */
function nameOf(entry: Entry): string {
  const bytes = entry.fileName as unknown as Buffer
  const flags = isUtf8(bytes) ? entry.generalPurposeBitFlag | utf8Name : entry.generalPurposeBitFlag
  return getFileNameLowLevel(flags, bytes, entry.extraFields, true)
}

/** Archives of Windows PowerShell 5.1 have backslashes between folders. Beside slashes, a backslash is a part of a name. */
function separatorsOf(entries: readonly NamedEntry[]): (name: string) => string {
  const isOfWindows = !entries.some(({ name }) => name.includes('/'))
  return (name) => (isOfWindows ? name.replaceAll('\\', '/') : name)
}

/** The content of a link is the path that it names. */
async function keepLink(zip: ZipFile, entry: Entry, name: string, reading: ArchiveReading): Promise<void> {
  if (entry.isEncrypted()) throw encrypted(name)
  if (entry.uncompressedSize > longestLink) return reading.filter.skip(name, linkRefusals.outside)
  const chunks: Buffer[] = []
  for await (const chunk of contentOf(zip, entry, { shown: name, counted: undefined }, reading)) chunks.push(chunk)
  reading.filter.keepLink(name, 'symbolic', Buffer.concat(chunks).toString())
}

const encrypted = (path: string) => invalid(`${printable(path)} in the zip is encrypted; pack the folder without a password`)

interface EntryNames {
  /** The name of the entry in messages. */
  readonly shown: string
  /** The path of the file that gets the bytes; undefined for a link. */
  readonly counted: string | undefined
}

/** Compares the checksum, because yauzl compares only the size. */
async function* contentOf(
  zip: ZipFile,
  entry: Entry,
  { shown, counted }: EntryNames,
  reading: ArchiveReading,
): AsyncGenerator<Buffer> {
  let sum = 0
  try {
    for await (const chunk of (await zip.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
      reading.countInflated(chunk.length, shown)
      if (counted !== undefined) reading.countBytes(counted, chunk.length)
      sum = crc32(chunk, sum)
      yield chunk
    }
  } catch (error) {
    throw unreadable(error)
  }
  if (sum !== entry.crc32) throw damaged(`${printable(shown)} does not match its checksum`)
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
