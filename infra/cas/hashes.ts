import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, gunzipSync } from 'node:zlib'

/**
 * Computes the sha256 of the bytes; undefined when they cannot be read to the end.
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

/** A variant up to this size is inflated at once: that takes less than 0.2 ms, and a stream would take longer and wait for other threads. */
const maxSmallBytes = 16 * 1024
const maxSmallInflatedBytes = 64 * 1024

/** The sha256 of the inflated bytes of a gzip variant; undefined when it is damaged. */
export async function hashOfInflated(variant: Buffer | Readable): Promise<string | undefined> {
  const hash = createHash('sha256')
  if (Buffer.isBuffer(variant) && variant.length <= maxSmallBytes) {
    try {
      return hash.update(gunzipSync(variant, { maxOutputLength: maxSmallInflatedBytes })).digest('hex')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') return undefined
    }
  }
  try {
    await pipeline(Buffer.isBuffer(variant) ? [variant] : variant, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) hash.update(chunk)
    })
  } catch {
    return undefined
  }
  return hash.digest('hex')
}
