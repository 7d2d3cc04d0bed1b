import { Readable } from 'node:stream'
import { compressible } from '../../core/media.ts'
import { mediaTypeOf } from '../media.ts'
import type { Cas, PutOptions, StoredObject } from './cas.ts'

/** Twins of smaller files would not save a packet. */
const minEncodedBytes = 512
const sniffedBytes = 4096

/** Stores a file that will be served, with a gzip twin when its media type shrinks. */
export async function putPublishedFile(cas: Cas, path: string, bytes: Readable | Buffer): Promise<StoredObject> {
  const stored = await cas.put(bytes)
  if (stored.size >= minEncodedBytes && compressible(mediaTypeOf(path))) await cas.encode(stored.sha256, 'gzip')
  return stored
}

/** As {@link putPublishedFile} for bytes whose path is unknown: what begins as text gets a twin. */
export async function putUnnamedFile(cas: Cas, bytes: Readable, options: PutOptions): Promise<StoredObject> {
  let head = Buffer.alloc(0)
  const watched = async function* () {
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      if (head.length < sniffedBytes) head = Buffer.concat([head, chunk.subarray(0, sniffedBytes - head.length)])
      yield chunk
    }
  }
  const stored = await cas.put(Readable.from(watched(), { objectMode: false }), options)
  if (stored.size >= minEncodedBytes && isText(head)) await cas.encode(stored.sha256, 'gzip')
  return stored
}

/** UTF-8 without NUL; the last character may be cut off. */
function isText(head: Buffer): boolean {
  if (head.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    return true
  } catch {
    return false
  }
}
