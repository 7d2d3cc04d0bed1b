import { fstatSync, readSync } from 'node:fs'
import { inflateSync } from 'node:zlib'
import { GitError } from './git-error.ts'

export const objectTypes = { 1: 'commit', 2: 'tree', 3: 'blob', 4: 'tag' } as const
export type ObjectType = (typeof objectTypes)[keyof typeof objectTypes]

/** An object in a pack. */
export interface PackedObject {
  /** Its own type, or, for a delta, the offset or the id of its base. */
  readonly kind: ObjectType | { readonly baseAt: number } | { readonly baseId: string }
  /** The inflated bytes of the object or delta. */
  readonly bytes: Buffer
  /** The offset of the next object. */
  readonly end: number
}

const trailerBytes = 20
const longestHeader = 32
const windowBytes = 1024 * 1024

/**
 * Reads objects of a pack file at their offsets. An object is never inflated beyond its announced or allowed size. Reads are synchronous,
 * because this runs in a process of its own, where waiting for the thread pool took longer than reading.
 */
export function openPack(fd: number, maxObjectBytes: number) {
  const end = fstatSync(fd).size - trailerBytes
  let window: Buffer = Buffer.alloc(0)
  let windowAt = 0

  /** Reads at least `length` bytes, unless the pack ends before. */
  function bytesAt(at: number, length: number): Buffer {
    const wanted = Math.max(0, Math.min(length, end - at))
    if (at < windowAt || at + wanted > windowAt + window.length) {
      window = Buffer.allocUnsafe(Math.max(0, Math.min(Math.max(wanted, windowBytes), end - at)))
      windowAt = at
      if (readSync(fd, window, 0, window.length, at) !== window.length) throw damaged('it is cut short')
    }
    return window.subarray(at - windowAt)
  }

  function read(at: number): PackedObject {
    const { kind, size, length } = readHeader(bytesAt(at, longestHeader), at)
    refuseSize(size, maxObjectBytes)
    const dataAt = at + length
    // deflate adds at most 5 bytes for each of its blocks, which some writers make as small as 16 KiB; a header and a checksum
    const { bytes, consumed } = inflate(bytesAt(dataAt, size + 5 * Math.ceil(size / 8192) + 64), size)
    return { kind, bytes, end: dataAt + consumed }
  }

  /** The number of objects; the first one is at offset 12. */
  function count(): number {
    const header = bytesAt(0, 12)
    if (end < 12 || header.toString('latin1', 0, 4) !== 'PACK' || header.readUInt32BE(4) !== 2) throw damaged('it is not a pack')
    return header.readUInt32BE(8)
  }

  return { count, read, end }
}

/** gitformat-pack: three bits of type, then the size, seven bits a byte; then what a delta's base is. */
function readHeader(bytes: Buffer, start: number) {
  let at = 0
  const next = () => bytes[at++] ?? 0
  let byte = next()
  const type = (byte >> 4) & 7
  let size = byte & 15
  for (let factor = 16; byte & 0x80; factor *= 128) {
    byte = next()
    size += (byte & 0x7f) * factor
    if (at > 8) throw damaged('it has an object of a size that cannot be')
  }
  if (type === 6) {
    byte = next()
    let distance = byte & 0x7f
    while (byte & 0x80) {
      byte = next()
      distance = (distance + 1) * 128 + (byte & 0x7f)
      if (at > 16) throw damaged('it has a delta without a base')
    }
    return { kind: { baseAt: start - distance }, size, length: at }
  }
  if (type === 7) return { kind: { baseId: bytes.toString('hex', at, at + 20) }, size, length: at + 20 }
  if (!(type in objectTypes)) throw damaged(`it has an object of type ${type}`)
  return { kind: objectTypes[type as keyof typeof objectTypes], size, length: at }
}

function inflate(data: Buffer, size: number): { readonly bytes: Buffer; readonly consumed: number } {
  try {
    const options = { info: true, maxOutputLength: Math.max(size, 1), chunkSize: Math.min(Math.max(size, 64), windowBytes) }
    // the types lack the result of the option `info`
    const { buffer, engine } = inflateSync(data, options) as unknown as { buffer: Buffer; engine: { bytesWritten: number } }
    if (buffer.length === size) return { bytes: buffer, consumed: engine.bytesWritten }
  } catch {
    // checked below
  }
  throw damaged('it has an object that cannot be inflated to what it says')
}

export function refuseSize(size: number, maxBytes: number): void {
  if (size > maxBytes) {
    throw new GitError('too_large', `the repository has a file of ${inMb(size)}; more than ${inMb(maxBytes)} is not fetched`)
  }
}

export const inMb = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MB`

export const damaged = (why: string) => new GitError('damaged', `the git server sent a damaged pack (${why}); try again`)
