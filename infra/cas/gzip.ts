import type { FileHandle } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

/** Whether a variant is worth keeping: it must save at least a tenth. */
export const savesEnough = (compressedSize: number, size: number) => compressedSize <= size * 0.9

/** Compresses a file; returns the compressed size. */
export async function writeGzip(source: FileHandle, target: FileHandle): Promise<number> {
  await pipeline(source.createReadStream(), createGzip(), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) await target.writeFile(chunk)
  })
  return (await target.stat()).size
}
