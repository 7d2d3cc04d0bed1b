import { once } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Parser, type ReadEntry } from 'tar'
import { type AppError, invalid } from '../../core/errors.ts'
import type { LinkKind } from '../../core/link-targets.ts'
import { notRegular } from '../../core/skipped-paths.ts'
import type { ArchiveReading } from './reading.ts'
import { expandSparse, parseSparse, type SparseFile, withoutOldSparse } from './sparse.ts'

const blockBytes = 512
const regular = new Set(['File', 'OldFile', 'ContiguousFile'])
const folder = new Set(['Directory', 'GNUDumpDir'])
const linkKinds: ReadonlyMap<string, LinkKind> = new Map([
  ['SymbolicLink', 'symbolic'],
  ['Link', 'hard'],
])

/** Reads a tar.gz with the parser only, never with an extractor that gives names a meaning in the file system. */
export async function readTarGz(file: FileHandle, reading: ArchiveReading): Promise<void> {
  await new TarReader(reading).read(file)
}

class TarReader {
  readonly #reading: ArchiveReading
  readonly #parser = new Parser({ strict: true, zstd: false, brotli: false })
  /** The first failure. The parser never ends an entry after one, so it ends every wait. */
  #failure: { readonly error: unknown } | undefined
  readonly #waits = new Set<(error: unknown) => void>()
  /** The parser has seen the end marker. */
  #hasEnded = false
  /** The name of the entry that is being read. */
  #entry: string | undefined
  /** The extended headers of the next entry. */
  #records = ''
  /** An extended header of the next entry, which may name it, was too large for the parser. */
  #isNamedAbove = false
  /** All bytes of the tar so far. */
  #bytes = 0
  /** Settles when every entry so far has been handled. */
  #handled: Promise<void> = Promise.resolve()

  constructor(reading: ArchiveReading) {
    this.#reading = reading
    this.#parser.on('error', (error: Error) => this.#fail(damaged(error)))
    this.#parser.on('eof', () => {
      this.#hasEnded = true
    })
    this.#parser.on('meta', (text: string) => {
      this.#records += text
    })
    this.#parser.on('ignoredEntry', (entry: ReadEntry) => this.#skip(entry))
    this.#parser.on('entry', (entry: ReadEntry) => {
      this.#entry = entry.path
      const sparse = this.#takeSparse()
      const isNamed = !this.#isNamedAbove
      this.#isNamedAbove = false
      // the parser emits the next entry when this one is read, possibly before its file is closed
      this.#handled = this.#handled.then(() => (isNamed ? this.#handle(entry, sparse) : this.#passUnnamed(entry)))
      this.#handled.catch((error: unknown) => this.#fail(error))
    })
  }

  async read(file: FileHandle): Promise<void> {
    const source = file.createReadStream({ start: 0, autoClose: false })
    const parsed = pipeline(source, createGunzip(), (chunks) => this.#parse(withoutOldSparse(chunks as AsyncIterable<Buffer>)))
    try {
      await this.#orFailure(parsed)
    } catch (error) {
      const reason = isInflateError(error) ? damaged(error) : error
      this.#fail(reason)
      throw reason
    } finally {
      await Promise.allSettled([parsed, this.#handled])
    }
  }

  async #parse(chunks: AsyncIterable<Buffer>): Promise<void> {
    const parser = this.#parser
    let isFirst = true
    for await (const chunk of chunks) {
      // the parser would unpack a second layer by itself, uncounted
      if (isFirst && chunk[0] === 0x1f && chunk[1] === 0x8b) throw invalid('the archive is compressed twice; send a plain tar.gz')
      isFirst = false
      this.#bytes += chunk.length
      this.#reading.countInflated(chunk.length, this.#hasEnded ? undefined : this.#entry)
      if (this.#failure) throw this.#failure.error
      // padding after the end marker would pile up in the parser
      if (!this.#hasEnded && !parser.write(chunk)) await this.#orFailure(once(parser, 'drain'))
    }
    if (!this.#hasEnded && this.#bytes % blockBytes !== 0) throw damaged(new Error('it ends inside a header'))
    const ended = once(parser, 'end')
    parser.end()
    await this.#orFailure(ended)
    await this.#orFailure(this.#handled)
  }

  /** The extended headers since the entry before. */
  #takeSparse(): SparseFile | undefined {
    const records = this.#records
    this.#records = ''
    try {
      return parseSparse(records)
    } catch (error) {
      this.#fail(error)
      return undefined
    }
  }

  #passUnnamed(entry: ReadEntry): void {
    this.#reading.countEntry()
    this.#reading.filter.skip(entry.path, 'its extended header is larger than 1 MiB')
    entry.resume()
  }

  async #handle(entry: ReadEntry, sparse: SparseFile | undefined): Promise<void> {
    const { filter, countEntry, onFile } = this.#reading
    countEntry()
    const link = linkKinds.get(entry.type)
    if (link !== undefined) {
      filter.keepLink(entry.path, link, entry.linkpath ?? '')
      entry.resume()
      return
    }
    const name = sparse?.name ?? entry.path
    const path = regular.has(entry.type) && !name.endsWith('/') ? filter.acceptFile(name) : undefined
    if (path === undefined) {
      if (folder.has(entry.type) || entry.path.endsWith('/')) filter.passFolder(entry.path)
      else if (!regular.has(entry.type)) filter.skip(entry.path, notRegular)
      entry.resume()
      return
    }
    await onFile({ path, executable: ((entry.mode ?? 0) & 0o111) !== 0, bytes: this.#contentOf(entry, path, sparse) })
  }

  async *#contentOf(entry: ReadEntry, path: string, sparse: SparseFile | undefined): AsyncGenerator<Buffer> {
    const stored = this.#storedBytes(entry)
    for await (const chunk of sparse ? expandSparse(stored, sparse) : stored) {
      // zeros that the archive does not hold are inflated too
      if (sparse) this.#reading.countInflated(chunk.length, path)
      this.#reading.countBytes(path, chunk.length)
      yield chunk
    }
  }

  async *#storedBytes(entry: ReadEntry): AsyncGenerator<Buffer> {
    const chunks = entry[Symbol.asyncIterator]()
    for (;;) {
      const next = await this.#orFailure(chunks.next())
      if (next.done) return
      yield next.value
    }
  }

  #skip(entry: ReadEntry): void {
    try {
      this.#reading.countEntry()
      if (entry.meta) {
        this.#isNamedAbove = true
        return
      }
      this.#records = ''
      this.#isNamedAbove = false
      this.#reading.filter.skip(entry.path, notRegular)
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
    for (const end of this.#waits) end(error)
  }

  /** Not a race with one promise of the whole reading: that would keep what every wait has brought, all content of the archive. */
  async #orFailure<T>(work: Promise<T>): Promise<T> {
    const wait = Promise.withResolvers<T>()
    if (this.#failure) wait.reject(this.#failure.error)
    this.#waits.add(wait.reject)
    work.then(wait.resolve, wait.reject)
    try {
      return await wait.promise
    } finally {
      this.#waits.delete(wait.reject)
    }
  }
}

const isInflateError = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')

function damaged({ message }: Error): AppError {
  const why = message.includes('Unrecognized archive format') ? 'it holds no tar, or an empty one' : message
  return invalid(`the tar.gz is damaged or cut short (${why}); pack the folder again`)
}
