import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { AppError } from '../../core/errors.ts'
import type { Cas, Encoding, OpenedObject, StoredObject } from './cas.ts'

const suffix = { gzip: '.gz' } as const satisfies Record<Encoding, string>

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

  return {
    async put(bytes, limitBytes = Number.POSITIVE_INFINITY): Promise<StoredObject> {
      const hash = createHash('sha256')
      let size = 0
      let sha256 = ''
      const count = (chunk: Buffer) => {
        size += chunk.length
        if (size > limitBytes) throw new AppError('too_large', `the content is larger than ${limitBytes} bytes`)
        hash.update(chunk)
      }
      await write(async (file) => {
        for await (const chunk of bytes instanceof Readable ? (bytes as AsyncIterable<Buffer>) : [bytes]) {
          count(chunk)
          await file.writeFile(chunk)
        }
        sha256 = hash.digest('hex')
        return pathOf(sha256)
      })
      return { sha256, size }
    },

    async size(sha256) {
      return (await absent(stat(pathOf(sha256))))?.size
    },

    async open(sha256, encoding) {
      const file = await absent(open(pathOf(sha256) + (encoding ? suffix[encoding] : '')))
      return file && openedFile(file)
    },

    async encode(sha256, encoding) {
      const path = pathOf(sha256)
      if (await absent(stat(path + suffix[encoding]))) return
      const { size } = await stat(path)
      await write(async (file) => {
        const gzip = createGzip()
        await pipeline(createReadStream(path), gzip, async (chunks: AsyncIterable<Buffer>) => {
          for await (const chunk of chunks) await file.writeFile(chunk)
        })
        const encoded = await file.stat()
        return encoded.size <= size * 0.9 ? path + suffix[encoding] : undefined
      })
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

function outOfSpace(error: unknown): unknown {
  const full = codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT'
  return full ? new AppError('unavailable', 'the storage is full; ask the operator to free space, then try again') : error
}
