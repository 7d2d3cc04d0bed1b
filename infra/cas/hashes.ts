import { createHash } from 'node:crypto'
import type { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  gunzipSync,
  zstdDecompressSync,
} from 'node:zlib'
import type { Encoding } from '../../core/encodings.ts'
import { sha256Hex } from '../crypto/sha256.ts'

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

/** The largest window that a browser accepts (RFC 9659), which bounds the memory of the decoder. */
const ofZstd = { params: { [constants.ZSTD_d_windowLogMax]: 23 } }

/** Streams that decode a variant. */
export const decoders = {
  gzip: () => createGunzip(),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(ofZstd),
} as const satisfies Record<Encoding, () => Transform>

/** A variant up to this size is inflated at once: that takes less than 0.2 ms, and a stream would take longer and wait for other threads. */
const maxSmallBytes = 16 * 1024
const maxInflatedAtOnce = 64 * 1024
interface InflateLimits {
  readonly maxOutputLength: number
  /** The memory that is allocated for the inflated bytes, again and again until they fit. */
  readonly chunkSize: number
}
const inflateAtOnce: Readonly<Record<Encoding, (variant: Uint8Array, limits: InflateLimits) => Buffer>> = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
  zstd: (variant, limits) => zstdDecompressSync(variant, { ...ofZstd, ...limits }),
}

/**
 * The sha256 of the inflated bytes of a variant; undefined when it is damaged.
 * @param maxBytes a variant of more bytes is damaged
 */
export async function hashOfInflated(
  variant: Uint8Array | Readable,
  encoding: Encoding,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<string | undefined> {
  const isWhole = variant instanceof Uint8Array
  if (isWhole && variant.length <= maxSmallBytes) {
    try {
      // one byte more, in which a longer variant shows
      const chunkSize = Math.max(constants.Z_MIN_CHUNK, Math.min(maxBytes + 1, constants.Z_DEFAULT_CHUNK))
      return sha256Hex(inflateAtOnce[encoding](variant, { maxOutputLength: maxInflatedAtOnce, chunkSize }))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') return undefined
    }
  }
  const hash = createHash('sha256')
  let inflated = 0
  try {
    await pipeline(isWhole ? [variant] : variant, decoders[encoding](), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        inflated += chunk.length
        if (inflated > maxBytes) throw new Error('the variant is longer than its object')
        hash.update(chunk)
      }
    })
  } catch {
    return undefined
  }
  return hash.digest('hex')
}
