import type { ManifestEntry } from '../../core/manifest.ts'
import { entryStart, pathEnd, unescaped } from './manifests.ts'

/** The entries of a manifest in about a third of their bytes, for {@link findInTable}. */
export type EntryTable = Buffer

/** Entries of a block. A search reads all of one block. */
const blockLength = 16
const hashBytes = 32
/** Of the number of blocks, and of the offset of each. */
const offsetBytes = 4
const sizeStart = Buffer.from('","size":')
const backslash = 0x5c
const zero = 0x30
const comma = 0x2c
const closingBrace = 0x7d

/** Larger lists of entries have no table. */
export const maxTabledBytes = 256 * 1024
/** Where a table is written before its size is known. No table is longer than its entries in JSON. */
const draft = Buffer.allocUnsafeSlow(maxTabledBytes)

/** Some bytes of a buffer. To make a `subarray` of each path would take longer than everything else. */
interface Slice {
  readonly bytes: Buffer
  readonly start: number
  readonly stop: number
}

/**
 * Makes the table of a small manifest: hashes as bytes, and of each path only what differs from the path before. The entries keep their order.
 * They are divided into blocks, each of which begins with a whole path; the offsets of the blocks follow the last one, and then their number.
 * The table does not share the memory of the given bytes.
 * @param files at most {@link maxTabledBytes}, as `splitManifest` returns them
 * @throws Error when the bytes are not those of a manifest
 */
export function createEntryTable(files: Buffer): EntryTable {
  const blocks: number[] = []
  let previous: Slice = { bytes: files, start: 0, stop: 0 }
  let end = 0
  let count = 0
  for (let at = 0; at < files.length; count++) {
    const { path, hashStart } = readPath(files, at)
    const { size, next } = readSize(files, hashStart + 2 * hashBytes)
    const isFirst = count % blockLength === 0
    if (isFirst) blocks.push(end)
    const shared = isFirst ? 0 : sharedBytes(previous, path)
    end = writeNumber(draft, end, shared)
    end = writeNumber(draft, end, path.stop - path.start - shared)
    for (let i = path.start + shared; i < path.stop; i++) draft[end++] = path.bytes[i] ?? 0
    end = writeNumber(draft, end, size)
    end = writeHash(draft, end, files, hashStart)
    previous = path
    at = next
  }
  const table = Buffer.allocUnsafeSlow(end + offsetBytes * (blocks.length + 1))
  draft.copy(table, 0, 0, end)
  for (const offset of [...blocks, blocks.length]) end = table.writeUInt32LE(offset, end)
  return table
}

function readPath(files: Buffer, at: number): { path: Slice; hashStart: number } {
  const start = at + entryStart.length
  const stop = files.indexOf(pathEnd, start)
  if (stop === -1 || !hasAt(files, entryStart, at)) throw damaged()
  const hashStart = stop + pathEnd.length
  if (!isEscaped(files, start, stop)) return { path: { bytes: files, start, stop }, hashStart }
  const bytes = Buffer.from(unescaped(files.toString('utf8', start, stop)))
  return { path: { bytes, start: 0, stop: bytes.length }, hashStart }
}

function isEscaped(files: Buffer, start: number, stop: number): boolean {
  for (let i = start; i < stop; i++) {
    if (files[i] === backslash) return true
  }
  return false
}

function readSize(files: Buffer, at: number): { size: number; next: number } {
  const start = at + sizeStart.length
  let size = 0
  let stop = start
  for (let digit = digitAt(files, stop); digit >= 0 && digit <= 9; digit = digitAt(files, ++stop)) size = 10 * size + digit
  const isSize = hasAt(files, sizeStart, at) && stop > start && files[stop] === closingBrace && Number.isSafeInteger(size)
  if (!isSize) throw damaged()
  return { size, next: files[stop + 1] === comma ? stop + 2 : stop + 1 }
}

const damaged = () => new Error('the manifest is damaged')

const digitAt = (bytes: Buffer, at: number) => (bytes[at] ?? 0) - zero

function hasAt(bytes: Buffer, wanted: Buffer, at: number): boolean {
  for (let i = 0; i < wanted.length; i++) {
    if (bytes[at + i] !== wanted[i]) return false
  }
  return true
}

function sharedBytes(one: Slice, other: Slice): number {
  const most = Math.min(one.stop - one.start, other.stop - other.start)
  let shared = 0
  while (shared < most && one.bytes[one.start + shared] === other.bytes[other.start + shared]) shared++
  return shared
}

/** Values of the digits of a hash; 16 for what is none. */
const hexValues = Uint8Array.from({ length: 256 }, (_, code) => {
  const value = '0123456789abcdef'.indexOf(String.fromCharCode(code))
  return value === -1 ? 16 : value
})

function writeHash(bytes: Buffer, offset: number, files: Buffer, start: number): number {
  for (let i = 0; i < hashBytes; i++) {
    const high = hexValues[files[start + 2 * i] ?? 0] ?? 16
    const low = hexValues[files[start + 2 * i + 1] ?? 0] ?? 16
    if (high === 16 || low === 16) throw damaged()
    bytes[offset + i] = 16 * high + low
  }
  return offset + hashBytes
}

/** Looks up a file by binary search among the blocks. */
export function findInTable(table: EntryTable, path: string): ManifestEntry | undefined {
  const blocks = table.readUInt32LE(table.length - offsetBytes)
  const offsets = table.length - offsetBytes * (blocks + 1)
  const offsetOf = (block: number) => (block < blocks ? table.readUInt32LE(offsets + offsetBytes * block) : offsets)
  // the last block that begins with the wanted path or before it
  let from = 0
  let to = blocks
  while (from < to) {
    const middle = (from + to) >>> 1
    if (path < firstPath(table, offsetOf(middle))) to = middle
    else from = middle + 1
  }
  return from === 0 ? undefined : findInBlock(table.subarray(offsetOf(from - 1), offsetOf(from)), path)
}

/** The path that a block begins with. */
function firstPath(table: EntryTable, offset: number): string {
  // it shares nothing, which takes one byte
  const length = readNumber(table, offset + 1)
  const start = offset + 1 + numberBytes(length)
  return table.toString('utf8', start, start + length)
}

function findInBlock(block: Buffer, path: string): ManifestEntry | undefined {
  const wanted = Buffer.from(path)
  /** How many bytes the path before and the wanted path have in common. */
  let matched = 0
  for (let at = 0; at < block.length; ) {
    const shared = readNumber(block, at)
    at += numberBytes(shared)
    const length = readNumber(block, at)
    at += numberBytes(length)
    const sizeAt = at + length
    if (shared <= matched) {
      matched = shared
      while (at < sizeAt && block[at] === wanted[matched]) {
        at++
        matched++
      }
      if (at === sizeAt && matched === wanted.length) return entryAt(block, path, sizeAt)
    }
    at = sizeAt + numberBytes(readNumber(block, sizeAt)) + hashBytes
  }
  return undefined
}

function entryAt(block: Buffer, path: string, sizeAt: number): ManifestEntry {
  const size = readNumber(block, sizeAt)
  const hash = sizeAt + numberBytes(size)
  return { path, sha256: block.toString('hex', hash, hash + hashBytes), size }
}

/** Numbers take seven bits a byte, the least first; all bytes but the last have the highest bit. */
function numberBytes(value: number): number {
  let count = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) count++
  return count
}

function writeNumber(bytes: Buffer, offset: number, value: number): number {
  let at = offset
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes[at++] = (rest % 128) + 128
  bytes[at++] = rest
  return at
}

function readNumber(bytes: Buffer, offset: number): number {
  let value = 0
  let scale = 1
  for (let at = offset; ; at++, scale *= 128) {
    const byte = bytes[at] ?? 0
    value += (byte % 128) * scale
    if (byte < 128) return value
  }
}
