import type { Readable } from 'node:stream'
import { compressible } from '../../core/media.ts'
import { mediaTypeOf } from '../media.ts'
import type { Cas, StoredObject } from './cas.ts'

/** Twins of smaller files would not save a packet. */
const minEncodedBytes = 512

/** Stores a file that will be served, with a gzip twin when its media type shrinks. */
export async function putPublishedFile(cas: Cas, path: string, bytes: Readable | Buffer): Promise<StoredObject> {
  const stored = await cas.put(bytes)
  if (stored.size >= minEncodedBytes && compressible(mediaTypeOf(path))) await cas.encode(stored.sha256, 'gzip')
  return stored
}
