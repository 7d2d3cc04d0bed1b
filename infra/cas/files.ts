import { closeSync, fstatSync, open, read } from 'node:fs'
import { Readable } from 'node:stream'
import { AppError } from '../../core/errors.ts'
import type { OpenedObject } from './cas.ts'
import { type PieceSource, sendPieces, streamPieces } from './pieces.ts'

/**
 * Opens a stored file; undefined when it does not exist. Uses callbacks and closes at once, because every step that another thread takes costs 35 µs of
 * processor time, and twice that with promises: of what an edge does for a file that is not in memory that was the largest part.
 */
export function openFile(path: string): Promise<OpenedObject | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<OpenedObject | undefined>()
  open(path, (error, fd) => {
    if (error) return codeOf(error) === 'ENOENT' ? resolve(undefined) : reject(error)
    try {
      resolve(openedFile(fd))
    } catch (error) {
      closeSync(fd)
      reject(error)
    }
  })
  return promise
}

/** @param fd is closed with the object */
function openedFile(fd: number): OpenedObject {
  // does not wait for the disk: to open the file the kernel has read its inode
  const { size } = fstatSync(fd)
  const file = readableFile(fd)
  return {
    size,
    stream(start = 0, end = size - 1) {
      if (size > 0) return streamPieces(file, start, end)
      file.close()
      return Readable.from([])
    },
    send: (write, start = 0, end = size - 1) => sendPieces(file, start, end, write),
    async bytes(into) {
      try {
        return await readBytes(file, into && into.length >= size ? into.subarray(0, size) : Buffer.allocUnsafeSlow(size))
      } finally {
        file.close()
      }
    },
    async close() {
      file.close()
    },
  }
}

interface OpenFile extends PieceSource {
  close(): void
}

/** Its number is free for another file only when all reads have ended, and it is closed only once. */
function readableFile(fd: number): OpenFile {
  let reads = 0
  let state: 'open' | 'closing' | 'closed' = 'open'
  const closeWhenIdle = () => {
    if (state !== 'closing' || reads > 0) return
    state = 'closed'
    closeSync(fd)
  }
  return {
    read(buffer, offset, length, position) {
      const { promise, resolve, reject } = Promise.withResolvers<{ readonly bytesRead: number }>()
      if (state !== 'open') throw new Error('the object is closed')
      reads += 1
      read(fd, buffer, offset, length, position, (error, bytesRead) => {
        reads -= 1
        closeWhenIdle()
        if (error) reject(error)
        else resolve({ bytesRead })
      })
      return promise
    },
    close() {
      if (state === 'open') state = 'closing'
      closeWhenIdle()
    },
  }
}

/** Fills the buffer from the beginning of the file. Returns fewer bytes when the file has been cut since. */
async function readBytes(file: PieceSource, bytes: Buffer): Promise<Buffer> {
  let length = 0
  while (length < bytes.length) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return bytes.subarray(0, length)
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code

/** Undefined when the file does not exist. */
export async function absent<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

export async function unlessThere(attempt: Promise<void>): Promise<void> {
  try {
    await attempt
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

/** The error, or a refusal that says that the storage is full. */
export function outOfSpace(error: unknown): unknown {
  const full = codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT'
  return full ? new AppError('unavailable', 'the storage is full; ask the operator to free space, then try again') : error
}

/** Processes all items, `atOnce` at a time. After a failure, it waits for the work that has begun and rejects. */
export async function inParallel<T>(atOnce: number, items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items[Symbol.iterator]()
  let failed: { readonly error: unknown } | undefined
  const worker = async () => {
    for (let next = queue.next(); !next.done && !failed; next = queue.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failed ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  if (failed) throw failed.error
}
