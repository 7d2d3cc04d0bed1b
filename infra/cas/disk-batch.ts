import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { AppError, unavailable } from '../../core/errors.ts'
import { type ObjectBatch, type OpenedObject, otherBytes, type PutOptions, type StoredObject } from './cas.ts'
import { absent, flushFolder, inParallel, openedFile, outOfSpace } from './files.ts'

/** A name that is older was flushed, by its writer or by the kernel. */
const freshMs = 60_000
const headBytes = 4096
const comparedBytes = 256 * 1024
const renamesAtOnce = 8

export interface Places {
  readonly incoming: string
  readonly objects: string
  readonly pathOf: (sha256: string) => string
  /** Folders of `objects` that are known to be there. */
  readonly madeFolders: Set<string>
}

interface Entry {
  readonly size: number
  /** Undefined when the object is stored already. */
  readonly temporary: string | undefined
}

/** A folder below `incoming/` whose files get their places by renaming. */
export function openDiskBatch({ incoming, objects, pathOf, madeFolders }: Places): ObjectBatch {
  const folder = join(incoming, randomUUID())
  let making: Promise<unknown> | undefined
  const entries = new Map<string, Promise<Entry>>()
  const variants = new Map<string, Promise<string | undefined>>()
  const placed = new Set<string>()

  /** Writes a file of the batch and flushes it. */
  async function write<Result>(fill: (file: FileHandle) => Promise<Result>): Promise<{ path: string; result: Result }> {
    making ??= mkdir(folder)
    await making
    const path = join(folder, randomUUID())
    const file = await open(path, 'wx', 0o444)
    try {
      const result = await fill(file)
      await file.sync()
      return { path, result }
    } catch (error) {
      await rm(path, { force: true })
      throw error
    } finally {
      await file.close()
    }
  }

  async function takeBuffer(bytes: Buffer, { limitBytes, sha256: expected }: PutOptions): Promise<StoredObject> {
    if (bytes.length > (limitBytes ?? Number.POSITIVE_INFINITY)) throw tooLarge(limitBytes)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    if (expected !== undefined && sha256 !== expected) throw otherBytes(expected, sha256)
    const store = async (): Promise<Entry> => {
      if (await isStored(pathOf(sha256), bytes)) return { size: bytes.length, temporary: undefined }
      return { size: bytes.length, temporary: (await write((file) => file.writeFile(bytes))).path }
    }
    if (!entries.has(sha256)) entries.set(sha256, store())
    await entries.get(sha256)
    return { sha256, size: bytes.length }
  }

  async function takeStream(bytes: Readable, options: PutOptions): Promise<StoredObject & { readonly head: Buffer }> {
    const { limitBytes = Number.POSITIVE_INFINITY, sha256: expected } = options
    const hash = createHash('sha256')
    let size = 0
    let head = Buffer.alloc(0)
    const { path, result: sha256 } = await write(async (file) => {
      for await (const chunk of bytes as AsyncIterable<Buffer>) {
        size += chunk.length
        if (size > limitBytes) throw tooLarge(limitBytes)
        if (head.length < headBytes) head = Buffer.concat([head, chunk.subarray(0, headBytes - head.length)])
        hash.update(chunk)
        await file.writeFile(chunk)
      }
      const actual = hash.digest('hex')
      if (expected !== undefined && actual !== expected) throw otherBytes(expected, actual)
      return actual
    })
    if (entries.has(sha256)) await rm(path)
    else entries.set(sha256, Promise.resolve({ size, temporary: path }))
    return { sha256, size, head }
  }

  /** The file of the gzip variant; undefined when there is one already, or when it would save less than a tenth. */
  async function compress(sha256: string): Promise<string | undefined> {
    const { size, temporary } = (await entries.get(sha256)) ?? { size: 0, temporary: undefined }
    if (!temporary && (await absent(stat(`${pathOf(sha256)}.gz`)))) return undefined
    const source = await absent(open(temporary ?? pathOf(sha256)))
    if (!source) return undefined
    const { path, result: compressedSize } = await write(async (file) => await writeGzip(source, file))
    if (compressedSize <= size * 0.9) return path
    await rm(path)
    return undefined
  }

  async function place(temporary: string, path: string): Promise<void> {
    const home = dirname(path)
    if (!madeFolders.has(home)) {
      if (await mkdir(home, { recursive: true })) await flushFolder(objects)
      madeFolders.add(home)
    }
    if ((await absent(rename(temporary, path).then(() => true))) === undefined) throw gone()
  }

  return {
    async add(bytes, options = {}) {
      try {
        const taken = Buffer.isBuffer(bytes)
          ? { ...(await takeBuffer(bytes, options)), head: bytes.subarray(0, headBytes) }
          : await takeStream(bytes, options)
        const { sha256, size, head } = taken
        if (options.compress?.(size, head)) {
          if (!variants.has(sha256)) variants.set(sha256, compress(sha256))
          await variants.get(sha256)
        }
        return { sha256, size }
      } catch (error) {
        throw outOfSpace(error)
      }
    },

    async open(sha256): Promise<OpenedObject | undefined> {
      const temporary = (await entries.get(sha256))?.temporary
      const file = (temporary && (await absent(open(temporary)))) || (await absent(open(pathOf(sha256))))
      return file && (await openedFile(file))
    },

    async publish() {
      const homes = new Set<string>()
      try {
        await inParallel(renamesAtOnce, entries.entries(), async ([sha256, entering]) => {
          const { temporary } = await entering
          const path = pathOf(sha256)
          const variant = await variants.get(sha256)
          if (temporary) {
            placed.add(sha256)
            await place(temporary, path)
          }
          const stats = temporary ? undefined : await absent(stat(path))
          if (!temporary && !stats) throw gone()
          if (variant) await place(variant, `${path}.gz`)
          // the process that wrote a fresh one may not have flushed its name yet
          if (temporary || variant || (stats && Date.now() - stats.mtimeMs < freshMs)) homes.add(dirname(path))
        })
        await inParallel(renamesAtOnce, homes.values(), flushFolder)
      } catch (error) {
        throw outOfSpace(error)
      }
    },

    written: () => [...placed],

    async [Symbol.asyncDispose]() {
      await making?.catch(() => undefined)
      // nothing of it is written to any more: every `add` has ended, or its caller has left it
      await Promise.allSettled([...entries.values(), ...variants.values()])
      if (making) await rm(folder, { recursive: true, force: true })
    },
  }
}

const tooLarge = (limitBytes: number | undefined) => new AppError('too_large', `the content is larger than ${limitBytes} bytes`)
const gone = () => unavailable('parts of the upload were removed in the meantime, because it took too long; send it again')

/** Whether an object has exactly these bytes. It is then protected from the sweeper, as storing it again would. */
async function isStored(path: string, bytes: Buffer): Promise<boolean> {
  const file = await absent(open(path))
  if (!file) return false
  let age: number
  try {
    const stats = await file.stat()
    if (stats.size !== bytes.length) return false
    age = Date.now() - stats.mtimeMs
    const piece = Buffer.allocUnsafe(Math.min(comparedBytes, bytes.length))
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0 || !piece.subarray(0, bytesRead).equals(bytes.subarray(at, at + bytesRead))) return false
      at += bytesRead
    }
  } finally {
    await file.close()
  }
  const now = new Date()
  return age <= freshMs || ((await absent(utimes(path, now, now).then(() => true))) ?? false)
}

/** Answers the compressed size. */
export async function writeGzip(source: FileHandle, target: FileHandle): Promise<number> {
  await pipeline(source.createReadStream(), createGzip(), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) await target.writeFile(chunk)
  })
  return (await target.stat()).size
}
