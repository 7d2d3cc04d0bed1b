import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'

/**
 * The sha256 of the bytes; undefined when they cannot be read to their end.
 * @param pace awaited after each chunk, with its length
 * @throws when the storage does not answer
 */
export async function hashOfStream(bytes: Readable, pace?: (bytes: number) => Promise<void>): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      hash.update(chunk)
      await pace?.(chunk.length)
    }
  } catch (error) {
    // a sector that the disk cannot read is damage; a storage that does not answer is not
    if ((error as NodeJS.ErrnoException).code === 'EIO') return undefined
    throw error
  }
  return hash.digest('hex')
}

/** The sha256 of what a gzip variant inflates to; undefined when it does not. */
export async function hashOfInflated(variant: Iterable<Buffer> | Readable): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    await pipeline(variant, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) hash.update(chunk)
    })
  } catch {
    return undefined
  }
  return hash.digest('hex')
}
