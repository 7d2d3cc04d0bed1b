import { once } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { Parser, type ReadEntry } from 'tar'
import { type AppError, invalid } from '../../core/errors.ts'
import type { ArchiveReading } from './reading.ts'

const regular = new Set(['File', 'OldFile', 'ContiguousFile'])
const folder = new Set(['Directory', 'GNUDumpDir'])

/** Reads a tar.gz with the parser only, never with an extractor that gives names a meaning in the file system. */
export async function readTarGz(file: FileHandle, reading: ArchiveReading): Promise<void> {
  const { admission } = reading
  const failed = Promise.withResolvers<never>()
  // settled by a refusal inside an event; without this it would count as unhandled when nothing refuses
  failed.promise.catch(() => undefined)
  let done: Promise<void> = Promise.resolve()
  let ended = false
  let stopped = false
  const fail = (error: unknown) => {
    stopped = true
    failed.reject(error)
  }

  const parser = new Parser({ strict: true, zstd: false, brotli: false })
  parser.on('error', (error: Error) => fail(damaged(error)))
  parser.on('eof', () => {
    ended = true
  })
  parser.on('ignoredEntry', (entry: ReadEntry) => handled(() => skipped(entry)))
  parser.on('entry', (entry: ReadEntry) => {
    // the parser emits the next entry when this one is read, possibly before its file is closed
    done = done.then(() => taken(entry))
    done.catch(fail)
  })

  async function taken(entry: ReadEntry): Promise<void> {
    reading.countEntry()
    const path = regular.has(entry.type) && !entry.path.endsWith('/') ? admission.admitFile(entry.path) : undefined
    if (path === undefined) {
      if (folder.has(entry.type) || entry.path.endsWith('/')) admission.passFolder(entry.path)
      else if (!regular.has(entry.type)) admission.skip(entry.path)
      entry.resume()
      return
    }
    await reading.onFile({ path, executable: ((entry.mode ?? 0) & 0o111) !== 0, bytes: contentOf(entry) })
  }

  /** Throws when the archive fails, as the parser then never ends the entry. */
  async function* contentOf(entry: ReadEntry): AsyncGenerator<Buffer> {
    const chunks = entry[Symbol.asyncIterator]()
    for (;;) {
      const next = await Promise.race([chunks.next(), failed.promise])
      if (next.done) return
      reading.countBytes(next.value.length)
      yield next.value
    }
  }

  function skipped(entry: ReadEntry): void {
    reading.countEntry()
    if (!entry.meta) admission.skip(entry.path)
  }

  function handled(action: () => void): void {
    try {
      action()
    } catch (error) {
      fail(error)
    }
  }

  const inflated = pipeline(file.createReadStream({ start: 0, autoClose: false }), createGunzip(), async (chunks) => {
    let first = true
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      // the parser would unpack a second layer by itself, uncounted
      if (first && chunk[0] === 0x1f && chunk[1] === 0x8b) throw invalid('the archive is compressed twice; send a plain tar.gz')
      first = false
      reading.countInflated(chunk.length)
      if (stopped) await failed.promise
      // padding after the end marker would pile up in the parser
      if (!ended && !parser.write(chunk)) await Promise.race([once(parser, 'drain'), failed.promise])
    }
    const finished = once(parser, 'end')
    parser.end()
    await Promise.race([finished, failed.promise])
    await Promise.race([done, failed.promise])
  })
  try {
    await Promise.race([inflated, failed.promise])
  } catch (error) {
    const reason = isInflateError(error) ? damaged(error) : error
    fail(reason)
    throw reason
  } finally {
    await Promise.allSettled([inflated, done])
  }
}

const isInflateError = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')

function damaged({ message }: Error): AppError {
  const why = message.includes('Unrecognized archive format') ? 'it holds no tar, or an empty one' : message
  return invalid(`the tar.gz is damaged or cut short (${why}); pack the folder again`)
}
