import { compressible } from '../../core/media.ts'
import { mediaTypeOf } from '../media.ts'
import type { PutOptions } from './cas.ts'

/** Gzip variants of smaller files would not save a packet. */
const minCompressedBytes = 512

/** Files that will be served get a gzip variant when their media type shrinks. */
export const compressByPath = (path: string): Required<Pick<PutOptions, 'compress'>> => ({
  compress: (size) => size >= minCompressedBytes && compressible(mediaTypeOf(path)),
})

/** As {@link compressByPath} for bytes whose path is unknown: what begins as text gets a variant. */
export const compressText: Required<Pick<PutOptions, 'compress'>> = {
  compress: (size, head) => size >= minCompressedBytes && isText(head),
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
