import { randomUUID } from 'node:crypto'
import { AppError, invalid } from '../core/errors.ts'

/** The bounds of a JSON document. They are checked while the bytes arrive, before any parser or schema sees them. */
export interface JsonBounds {
  /** The size of the whole body. */
  readonly maxBytes: number
  /** The bytes that stay in memory: all but the long strings. */
  readonly maxKeptBytes: number
  /** The number of objects, arrays and their items, at every level. */
  readonly maxValues: number
  /** Names of members whose strings may be long, such as the content of a file. A long one does not stay in memory. */
  readonly longMembers: ReadonlySet<string>
}

/** A long string: a range of the spilled bytes, as they arrived. */
export interface SpilledString {
  readonly start: number
  readonly end: number
}

export interface ScannedDocument {
  /** The document with marks in place of its long strings; it is not yet known to be valid JSON. */
  readonly json: Buffer
  readonly spilled: ReadonlyMap<string, SpilledString>
}

export interface JsonScanner {
  /**
   * Takes the next bytes, and returns those that belong to long strings, in order. They are parts of this chunk or copies of earlier bytes.
   * @throws AppError `invalid`, `too_large`
   */
  scan(chunk: Buffer): Buffer[]
  /** Bytes in memory. */
  readonly keptBytes: number
  end(): ScannedDocument
}

/** Levels of arrays and objects; no operation needs ten. */
const maxDepth = 64
/** Members of one object: no schema has 30, and a repository in a payload of GitHub has about 100. 19,000 took the parser and zod 110 ms. */
const maxMembers = 1000
/** A longer string of a member that may be long is spilled. */
const longBytes = 2048
const firstKeptBytes = 4096

const quote = 0x22
const backslash = 0x5c

/**
 * A scanner of JSON that reads each byte once and keeps no more than `bounds` allow. It counts and splits; whether the document is valid is
 * left to the parser. It is one closure, because nearly every function works on most of this state, byte by byte;
 * separate pieces would only hand it around.
 */
export function createJsonScanner(bounds: JsonBounds): JsonScanner {
  const secret = randomUUID()
  const spilled = new Map<string, SpilledString>()
  const longNameBytes = new Set([...bounds.longMembers].map((name) => Buffer.byteLength(name)))
  let kept = Buffer.allocUnsafe(Math.min(firstKeptBytes, bounds.maxBytes))
  let keptBytes = 0
  let spilledBytes = 0
  let depth = 0
  let values = 0
  /** The number of members so far of the open object at each level. */
  const members = new Uint32Array(maxDepth + 1)
  /** Whether the next or the open value belongs to a member that may be long. */
  let mayBeLong = false
  /** Where the latest string begins in the kept bytes, without its quote, and its length; it is a name when a colon follows. */
  let stringStart = 0
  let stringBytes = 0
  let inString = false
  let escaped = false
  /** Where the open string begins in the spilled bytes; undefined while it is not spilled. */
  let spilledFrom: number | undefined
  /** The bytes of this chunk before `taken` are already kept or spilled. */
  let chunk: Buffer = Buffer.alloc(0)
  let taken = 0
  let toSpill: Buffer[] = []

  function keep(bytes: Buffer): void {
    const length = keptBytes + bytes.length
    if (length > bounds.maxKeptBytes) {
      throw new AppError('too_large', `the body has more than ${bounds.maxKeptBytes} bytes besides the contents of files`)
    }
    if (length > kept.length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(length, 2 * kept.length), bounds.maxKeptBytes))
      kept.copy(larger, 0, 0, keptBytes)
      kept = larger
    }
    bytes.copy(kept, keptBytes)
    keptBytes = length
  }

  function spill(bytes: Buffer): void {
    spilledBytes += bytes.length
    toSpill.push(bytes)
  }

  function take(end: number): void {
    const bytes = chunk.subarray(taken, end)
    if (spilledFrom === undefined) keep(bytes)
    else spill(bytes)
    taken = end
  }

  /** The offset that a byte of the chunk will have among the kept bytes. */
  const offsetOf = (at: number) => keptBytes + at - taken

  /** Spills the open string if it is long, counting the bytes before `end`. */
  function spillIfLong(end: number): void {
    if (spilledFrom !== undefined || offsetOf(end) - stringStart <= longBytes) return
    if (offsetOf(taken) < stringStart) take(taken + stringStart - keptBytes)
    const held = Buffer.from(kept.subarray(stringStart, keptBytes))
    keptBytes = stringStart
    spilledFrom = spilledBytes
    spill(held)
  }

  function closeString(at: number): void {
    inString = false
    if (mayBeLong) spillIfLong(at)
    if (spilledFrom === undefined) {
      stringBytes = offsetOf(at) - stringStart
      return
    }
    take(at)
    // parsed, it is a control character and an unguessable id: it equals no content and no base64
    const mark = `${secret}:${spilled.size}`
    spilled.set(`\u0001${mark}`, { start: spilledFrom, end: spilledBytes })
    spilledFrom = undefined
    keep(Buffer.from(`\\u0001${mark}`))
  }

  function beginMember(at: number): void {
    const count = (members[depth] ?? 0) + 1
    members[depth] = count
    if (count > maxMembers) throw invalid(`an object of the body has more than ${maxMembers} members; send fewer`, 'invalid_json')
    if (!longNameBytes.has(stringBytes)) return
    take(at)
    mayBeLong = bounds.longMembers.has(kept.toString('latin1', stringStart, stringStart + stringBytes))
  }

  function open(): void {
    depth += 1
    values += 1
    mayBeLong = false
    if (depth > maxDepth) throw invalid(`the body is nested deeper than ${maxDepth} levels`, 'invalid_json')
    members[depth] = 0
  }

  /** Handles a byte between strings. */
  function takeStructure(byte: number, at: number): void {
    switch (byte) {
      case quote:
        inString = true
        stringStart = offsetOf(at) + 1
        break
      case 0x3a: // :
        beginMember(at)
        break
      case 0x2c: // ,
        values += 1
        mayBeLong = false
        break
      case 0x5b: // [
      case 0x7b: // {
        open()
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1
        mayBeLong = false
        break
      default:
    }
  }

  return {
    scan(bytes) {
      chunk = bytes
      taken = 0
      toSpill = []
      for (let at = 0; at < bytes.length; at += 1) {
        if (!inString) {
          const byte = bytes[at] ?? 0
          // skips white space, of which there may be much
          if (byte > 0x20) takeStructure(byte, at)
        } else if (escaped) escaped = false
        else {
          at = endOfText(bytes, at)
          if (bytes[at] === backslash) escaped = true
          else if (at < bytes.length) closeString(at)
        }
      }
      if (inString && mayBeLong) spillIfLong(bytes.length)
      take(bytes.length)
      if (values > bounds.maxValues)
        throw invalid(`the body has more than ${bounds.maxValues} values; send fewer`, 'invalid_json')
      return toSpill
    },
    get keptBytes() {
      return keptBytes
    },
    end: () => ({ json: kept.subarray(0, keptBytes), spilled }),
  }
}

/** The index of the next quote or backslash; the chunk's length without one. */
function endOfText(chunk: Buffer, from: number): number {
  let at = from
  while (at < chunk.length && chunk[at] !== quote && chunk[at] !== backslash) at += 1
  return at
}
