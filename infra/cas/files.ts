import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { AppError } from '../../core/errors.ts'
import type { OpenedObject } from './cas.ts'
import type { Pieces } from './pieces.ts'

export async function openedFile(file: FileHandle, pieces: Pieces): Promise<OpenedObject> {
  const { size } = await file.stat()
  return {
    size,
    stream: (start = 0, end = size - 1) => (size === 0 ? closing(file) : pieces.stream(file, start, end)),
    async bytes() {
      try {
        return await readBytes(file, size)
      } finally {
        // not awaited: the bytes are complete, and the answer need not wait for another thread
        void file.close()
      }
    },
    close: () => file.close(),
  }
}

/** As `file.readFile`, which asks for the size again and reads once more to find the end. Returns fewer bytes when the file has been cut since. */
async function readBytes(file: FileHandle, size: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size)
  let length = 0
  while (length < size) {
    const { bytesRead } = await file.read(bytes, length, size - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return bytes.subarray(0, length)
}

function closing(file: FileHandle): Readable {
  void file.close()
  return Readable.from([])
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
