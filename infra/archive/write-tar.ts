import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { Header, Pax } from 'tar'

export interface TarFile {
  readonly path: string
  readonly executable: boolean
  readonly bytes: Uint8Array
}

const blockBytes = 512

/** Writes a tar.gz of regular files; equal files and times give equal bytes. The archive must not exist. */
export async function writeTarGz(archive: string, files: AsyncIterable<TarFile>, modifiedAt: Date): Promise<void> {
  await pipeline(
    Readable.from(blocks(files, modifiedAt)),
    createGzip({ level: 1 }),
    createWriteStream(archive, { flags: 'wx', mode: 0o600 }),
  )
}

async function* blocks(files: AsyncIterable<TarFile>, mtime: Date): AsyncGenerator<Uint8Array> {
  for await (const { path, executable, bytes } of files) {
    const header = new Header({ path, mode: executable ? 0o755 : 0o644, size: bytes.length, mtime, type: 'File' })
    if (header.encode()) yield new Pax({ path }).encode()
    yield header.block as Buffer
    // an empty chunk would end the stream
    if (bytes.length > 0) yield bytes
    const padding = -bytes.length & (blockBytes - 1)
    if (padding > 0) yield Buffer.alloc(padding)
  }
  yield Buffer.alloc(2 * blockBytes)
}
