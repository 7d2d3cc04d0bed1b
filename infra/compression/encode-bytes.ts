import { promisify } from 'node:util'
import { brotliCompress, constants, zstdCompress } from 'node:zlib'
import { type BackgroundEncoding, savesTwentieth } from '../../core/encodings.ts'

const brotli = promisify(brotliCompress)
const zstd = promisify(zstdCompress)

/** 4 MiB: a match may be anywhere in the largest file. Browsers refuse zstd windows above 8 MiB (RFC 9659). */
const windowLog = 22

/**
 * Compresses a text at the highest level that still saves something. In measurements with scripts, styles, markup and JSON, brotli 11 took 0.6 to
 * 1.3 s of processor time per MB and saved 12 to 33 % of what gzip leaves; zstd 19 took 0.2 to 0.3 s and saved 2 to 29 %. Level 22 of zstd saved
 * no more.
 */
export const encodeBytes: Readonly<Record<BackgroundEncoding, (bytes: Uint8Array) => Promise<Buffer>>> = {
  br: (bytes) =>
    brotli(bytes, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 11,
        [constants.BROTLI_PARAM_LGWIN]: windowLog,
        [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      },
    }),
  zstd: (bytes) =>
    zstd(bytes, {
      pledgedSrcSize: bytes.length,
      params: { [constants.ZSTD_c_compressionLevel]: 19, [constants.ZSTD_c_windowLog]: windowLog },
    }),
}

export interface Text {
  readonly bytes: Uint8Array
  /** The size of the smallest form that there is: of the gzip variant, or of the text itself. */
  readonly smallest: number
}

export type Variants = Readonly<Partial<Record<BackgroundEncoding, Uint8Array>>>

/** The variants of a text that are worth keeping. */
export async function encodeText({ bytes, smallest }: Text): Promise<Variants> {
  const br = await encodeBytes.br(bytes)
  // zstd, which is larger, would not be worth keeping either
  if (!savesTwentieth(br.length, smallest)) return {}
  const zstd = await encodeBytes.zstd(bytes)
  return savesTwentieth(zstd.length, smallest) ? { br, zstd } : { br }
}
