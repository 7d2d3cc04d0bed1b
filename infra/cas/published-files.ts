import { compressible } from '../../core/media.ts'
import { mediaTypeOf } from '../media.ts'
import type { PutOptions } from './cas.ts'

/** Gzip variants of smaller files would not save a packet. */
const minCompressedBytes = 512

/** Options for a file that will be served: a gzip variant when its media type compresses well. */
export const compressByPath = (path: string): Required<Pick<PutOptions, 'compress'>> => ({
  compress: (size) => size >= minCompressedBytes && compressible(mediaTypeOf(path)),
})

/** As {@link compressByPath}, for bytes without a path: those that begin as text get a variant. */
export const compressText: Required<Pick<PutOptions, 'compress'>> = {
  compress: (size, head) => size >= minCompressedBytes && isText(head),
}

/** Whether the bytes are UTF-8 without NUL; the last character may be cut off. */
function isText(head: Buffer): boolean {
  if (head.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    return true
  } catch {
    return false
  }
}
