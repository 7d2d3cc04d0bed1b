import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, link, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { AppError } from '../../core/errors.ts'
import { type Cas, type Encoding, type OpenedObject, otherBytes, type PutOptions, type StoredObject } from './cas.ts'

const suffix = { gzip: '.gz' } as const satisfies Record<Encoding, string>
/** A name that is older was flushed, by its writer or by the kernel. */
const freshMs = 60_000
const objectName = /^([0-9a-f]{62})(?:\.gz)?$/

/**
 * Objects as files `objects/ab/cd…` of mode 0444. A write goes to `incoming/`, is flushed, renamed into place, and its
 * folder flushed, so a name in `objects/` always has its whole content (the fsync discipline of PostgreSQL's durable_rename).
 */
export async function openDiskCas(root: string): Promise<Cas> {
  const incoming = join(root, 'incoming')
  const objects = join(root, 'objects')
  await mkdir(incoming, { recursive: true })
  await mkdir(objects, { recursive: true })
  const pathOf = (sha256: string) => join(objects, sha256.slice(0, 2), sha256.slice(2))
  const madeFolders = new Set<string>()

  async function publish(temporary: string, path: string): Promise<void> {
    const folder = dirname(path)
    if (!madeFolders.has(folder)) {
      const made = await mkdir(folder, { recursive: true })
      if (made) await flushFolder(objects)
      madeFolders.add(folder)
    }
    await rename(temporary, path)
    await flushFolder(folder)
  }

  /** Writes through a temporary file that is gone or renamed when this returns. */
  async function write(fill: (file: FileHandle) => Promise<string | undefined>): Promise<void> {
    const temporary = join(incoming, randomUUID())
    try {
      const file = await open(temporary, 'wx', 0o444)
      let path: string | undefined
      try {
        path = await fill(file)
        if (path) await file.sync()
      } finally {
        await file.close()
      }
      if (path) await publish(temporary, path)
      else await rm(temporary)
    } catch (error) {
      await rm(temporary, { force: true })
      throw outOfSpace(error)
    }
  }

  /** Protects an object that is there from the sweeper, as storing it again would. False when it has to be written. */
  async function renew(path: string, size: number): Promise<boolean> {
    const found = await absent(stat(path))
    if (found?.size !== size) return false
    const now = new Date()
    if (now.getTime() - found.mtimeMs > freshMs) return (await absent(utimes(path, now, now).then(() => true))) ?? false
    // whoever wrote it may not have flushed its name yet
    await flushFolder(dirname(path))
    return true
  }

  /** Takes an object out of its place, unless it was stored again since `before`. False when it is there, or gone by itself. */
  async function takeAside(path: string, before: Date): Promise<boolean> {
    const aside = join(incoming, randomUUID())
    if ((await absent(rename(path, aside).then(() => true))) === undefined) return false
    // another sweeper may take it for a leftover, when it is old
    const taken = await absent(stat(aside))
    const renewed = taken !== undefined && taken.mtime >= before
    if (renewed) {
      // it was stored between the look at its time and the renaming; a link, as yet another one may lie there by now
      await unlessThere(link(aside, path))
      await flushFolder(dirname(path))
    }
    await rm(aside, { force: true })
    return !renewed
  }

  return {
    async put(bytes, { limitBytes = Number.POSITIVE_INFINITY, sha256: expected }: PutOptions = {}): Promise<StoredObject> {
      if (Buffer.isBuffer(bytes) && bytes.length <= limitBytes) {
        const sha256 = createHash('sha256').update(bytes).digest('hex')
        if ((expected ?? sha256) === sha256 && (await renew(pathOf(sha256), bytes.length))) return { sha256, size: bytes.length }
      }
      const hash = createHash('sha256')
      let size = 0
      let sha256 = ''
      await write(async (file) => {
        for await (const chunk of bytes instanceof Readable ? (bytes as AsyncIterable<Buffer>) : [bytes]) {
          size += chunk.length
          if (size > limitBytes) throw new AppError('too_large', `the content is larger than ${limitBytes} bytes`)
          hash.update(chunk)
          await file.writeFile(chunk)
        }
        sha256 = hash.digest('hex')
        if (expected !== undefined && sha256 !== expected) throw otherBytes(expected, sha256)
        return pathOf(sha256)
      })
      return { sha256, size }
    },

    async stat(sha256) {
      const stats = await absent(stat(pathOf(sha256)))
      return stats && { size: stats.size, storedAt: stats.mtime }
    },

    async open(sha256, encoding) {
      const file = await absent(open(pathOf(sha256) + (encoding ? suffix[encoding] : '')))
      return file && openedFile(file)
    },

    async encode(sha256, encoding) {
      const path = pathOf(sha256)
      if (await absent(stat(path + suffix[encoding]))) return
      const source = await absent(open(path))
      if (!source) return
      const { size } = await source.stat()
      await write(async (file) => {
        const gzip = createGzip()
        await pipeline(source.createReadStream(), gzip, async (chunks: AsyncIterable<Buffer>) => {
          for await (const chunk of chunks) await file.writeFile(chunk)
        })
        const encoded = await file.stat()
        return encoded.size <= size * 0.9 ? path + suffix[encoding] : undefined
      })
    },

    async *list() {
      for (const folder of await readdir(objects)) {
        const hashes = (await readdir(join(objects, folder))).flatMap((name) => {
          const rest = objectName.exec(name)?.[1]
          return rest === undefined ? [] : [folder + rest]
        })
        yield [...new Set(hashes)]
      }
    },

    async remove(sha256, before) {
      const path = pathOf(sha256)
      const twins = Object.values(suffix).map((ending) => path + ending)
      const there = await Promise.all([path, ...twins].map((file) => absent(stat(file))))
      if (there.some((stats) => stats && stats.mtime >= before)) return false
      // without the object its twins are what a crash left
      if (there[0] && !(await takeAside(path, before))) return false
      for (const twin of twins) await rm(twin, { force: true })
      return true
    },

    async removeLeftovers(before) {
      let removed = 0
      for (const name of await readdir(incoming)) {
        const stats = await absent(stat(join(incoming, name)))
        if (!stats || stats.mtime >= before) continue
        await rm(join(incoming, name), { force: true })
        removed += 1
      }
      return removed
    },
  }
}

async function openedFile(file: FileHandle): Promise<OpenedObject> {
  const { size } = await file.stat()
  return {
    size,
    stream: (start = 0, end = size - 1) => (size === 0 ? closing(file) : file.createReadStream({ start, end })),
    async bytes() {
      try {
        return await file.readFile()
      } finally {
        await file.close()
      }
    },
    close: () => file.close(),
  }
}

function closing(file: FileHandle): Readable {
  void file.close()
  return Readable.from([])
}

async function flushFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code

async function absent<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

async function unlessThere(attempt: Promise<void>): Promise<void> {
  try {
    await attempt
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

function outOfSpace(error: unknown): unknown {
  const full = codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT'
  return full ? new AppError('unavailable', 'the storage is full; ask the operator to free space, then try again') : error
}
