import { Readable } from 'node:stream'
import { AppError, invalid } from '../core/errors.ts'
import { maxArchiveBytes } from '../core/limits.ts'
import { sniffArchive } from '../infra/archive/sniff.ts'
import type { ObjectBatch, StoredObject } from '../infra/cas/cas.ts'

const signatureBytes = 4

/**
 * Streams an archive into the batch. Only its size and signature are checked here; the build opens it.
 * @throws AppError `invalid`
 */
export async function storeArchive(objects: ObjectBatch, stream: Readable): Promise<StoredObject> {
  try {
    return await objects.add(Readable.from(withSignature(stream), { objectMode: false }), { limitBytes: maxArchiveBytes })
  } catch (error) {
    if (error instanceof AppError && error.kind === 'too_large') {
      throw invalid('the archive is larger than 50 MB; leave out what the site does not need', 'invalid_archive')
    }
    throw error
  }
}

/** Passes the bytes on once the first of them are known to be the signature of an archive. */
async function* withSignature(stream: Readable): AsyncGenerator<Buffer> {
  let head = Buffer.alloc(0)
  let known = false
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    if (known) {
      yield chunk
      continue
    }
    head = Buffer.concat([head, chunk])
    if (head.length < signatureBytes) continue
    if (!sniffArchive(head)) throw unrecognized()
    known = true
    yield head
  }
  if (!known)
    throw head.length === 0
      ? invalid('the archive is empty; send a tar.gz or a zip as the body', 'invalid_archive')
      : unrecognized()
}

const unrecognized = () =>
  invalid('this is neither a gzip-compressed tar nor a zip archive; send the raw bytes of one', 'invalid_archive')
