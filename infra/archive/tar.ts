import { once } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Parser, type ReadEntry } from 'tar'
import { type AppError, invalid } from '../../core/errors.ts'
import { notRegular } from '../../core/skipped-paths.ts'
import type { ArchiveReading } from './reading.ts'

const regular = new Set(['File', 'OldFile', 'ContiguousFile'])
const folder = new Set(['Directory', 'GNUDumpDir'])

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
  /** Settles when every entry so far has been handled. */
  #handled: Promise<void> = Promise.resolve()

  constructor(reading: ArchiveReading) {
    this.#reading = reading
    this.#parser.on('error', (error: Error) => this.#fail(damaged(error)))
    this.#parser.on('eof', () => {
      this.#hasEnded = true
    })
    this.#parser.on('ignoredEntry', (entry: ReadEntry) => this.#skip(entry))
    this.#parser.on('entry', (entry: ReadEntry) => {
      this.#entry = entry.path
      // the parser emits the next entry when this one is read, possibly before its file is closed
      this.#handled = this.#handled.then(() => this.#handle(entry))
      this.#handled.catch((error: unknown) => this.#fail(error))
    })
  }

  async read(file: FileHandle): Promise<void> {
    const source = file.createReadStream({ start: 0, autoClose: false })
    const parsed = pipeline(source, createGunzip(), (chunks) => this.#parse(chunks as AsyncIterable<Buffer>))
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
      this.#reading.countInflated(chunk.length, this.#hasEnded ? undefined : this.#entry)
      if (this.#failure) throw this.#failure.error
      // padding after the end marker would pile up in the parser
      if (!this.#hasEnded && !parser.write(chunk)) await this.#orFailure(once(parser, 'drain'))
    }
    const ended = once(parser, 'end')
    parser.end()
    await this.#orFailure(ended)
    await this.#orFailure(this.#handled)
  }

  async #handle(entry: ReadEntry): Promise<void> {
    const { filter, countEntry, onFile } = this.#reading
    countEntry()
    const path = regular.has(entry.type) && !entry.path.endsWith('/') ? filter.acceptFile(entry.path) : undefined
    if (path === undefined) {
      if (folder.has(entry.type) || entry.path.endsWith('/')) filter.passFolder(entry.path)
      else if (!regular.has(entry.type)) filter.skip(entry.path, notRegular)
      entry.resume()
      return
    }
    await onFile({ path, executable: ((entry.mode ?? 0) & 0o111) !== 0, bytes: this.#contentOf(entry) })
  }

  async *#contentOf(entry: ReadEntry): AsyncGenerator<Buffer> {
    const chunks = entry[Symbol.asyncIterator]()
    for (;;) {
      const next = await this.#orFailure(chunks.next())
      if (next.done) return
      this.#reading.countBytes(next.value.length)
      yield next.value
    }
  }

  #skip(entry: ReadEntry): void {
    try {
      this.#reading.countEntry()
      if (!entry.meta) this.#reading.filter.skip(entry.path, notRegular)
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
