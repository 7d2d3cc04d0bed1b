import { randomUUID } from 'node:crypto'
import { AppError, invalid } from '../core/errors.ts'

/** What a JSON document may hold. All of it is checked while the bytes arrive, before any parser or schema sees them. */
export interface JsonBounds {
  /** Of the whole body. */
  readonly maxBytes: number
  /** Of what stays in memory: everything but the long strings. */
  readonly maxKeptBytes: number
  /** Objects, arrays and what they contain, at every level. */
  readonly maxValues: number
  /** Names of members whose strings may be long, such as the content of a file. A long one does not stay in memory. */
  readonly longMembers: ReadonlySet<string>
}

/** A long string by the mark that stands for it in the document: a range of the bytes that were spilled, as they arrived. */
export interface SpilledString {
  readonly start: number
  readonly end: number
}

export interface ScannedDocument {
  /** The document with marks instead of its long strings; not yet known to be JSON. */
  readonly json: Buffer
  readonly spilled: ReadonlyMap<string, SpilledString>
}

export interface JsonScanner {
  /**
   * Takes the next bytes, and returns those that belong to long strings, in order. They are parts of the chunk or copies of what came before.
   * @throws AppError `invalid`, `too_large`
   */
  scan(chunk: Buffer): Buffer[]
  /** Bytes in memory. */
  readonly keptBytes: number
  end(): ScannedDocument
}

/** Levels of arrays and objects; no operation needs ten. */
const maxDepth = 64
/** A longer string of a member that may be long is spilled. */
const longBytes = 2048
/** No member of a schema has a longer name. */
const maxNameBytes = 64
const firstKeptBytes = 4096

const quote = 0x22
const backslash = 0x5c

/**
 * A scanner of JSON that does work in proportion to the bytes and keeps only what `bounds` allow. It counts and splits; whether the document
 * is JSON is left for the parser.
 */
export function createJsonScanner(bounds: JsonBounds): JsonScanner {
  const secret = randomUUID()
  const spilled = new Map<string, SpilledString>()
  let kept = Buffer.allocUnsafe(Math.min(firstKeptBytes, bounds.maxBytes))
  let keptBytes = 0
  let spilledBytes = 0
  let depth = 0
  let values = 0
  /** The member whose value comes next, once its colon was seen. */
  let member: string | undefined
  /** Where the latest string began in `kept`, without its quote; it is a name when a colon follows. */
  let stringStart = 0
  let lastName = ''
  let inString = false
  let escaped = false
  /** Where the open string began among the spilled bytes; undefined while it is not spilled. */
  let spilledFrom: number | undefined

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

  /** Counts what stands between strings. */
  function countStructure(chunk: Buffer, from: number, to: number): void {
    for (let at = from; at < to; at += 1) {
      switch (chunk[at] ?? 0) {
        case 0x3a: // :
          member = lastName
          break
        case 0x2c: // ,
          values += 1
          member = undefined
          break
        case 0x5b: // [
        case 0x7b: // {
          depth += 1
          values += 1
          member = undefined
          if (depth > maxDepth) throw invalid(`the body is nested deeper than ${maxDepth} levels`)
          break
        case 0x5d: // ]
        case 0x7d: // }
          depth -= 1
          member = undefined
          break
        default:
      }
    }
    if (values > bounds.maxValues) throw invalid(`the body has more than ${bounds.maxValues} values; send fewer`)
  }

  function openString(): void {
    inString = true
    stringStart = keptBytes
  }

  /** Takes bytes of the open string; returns those to spill. */
  function takeString(bytes: Buffer): Buffer[] {
    if (spilledFrom !== undefined) {
      spilledBytes += bytes.length
      return [bytes]
    }
    const mayBeLong = member !== undefined && bounds.longMembers.has(member)
    if (!mayBeLong || keptBytes - stringStart + bytes.length <= longBytes) {
      keep(bytes)
      return []
    }
    spilledFrom = spilledBytes
    const held = Buffer.from(kept.subarray(stringStart, keptBytes))
    keptBytes = stringStart
    spilledBytes += held.length + bytes.length
    return [held, bytes]
  }

  function closeString(): void {
    if (spilledFrom !== undefined) {
      // as text a control character and an id that nobody can guess: no content, and no base64
      const mark = `${secret}:${spilled.size}`
      spilled.set(`\u0001${mark}`, { start: spilledFrom, end: spilledBytes })
      keep(Buffer.from(`\\u0001${mark}`))
      spilledFrom = undefined
    } else if (member === undefined) {
      const length = keptBytes - stringStart
      lastName = length > maxNameBytes ? '' : kept.toString('latin1', stringStart, keptBytes)
    }
    inString = false
  }

  return {
    scan(chunk) {
      const toSpill: Buffer[] = []
      const findEnd = endsOfStrings(chunk)
      let at = 0
      while (at < chunk.length) {
        if (!inString) {
          const opening = chunk.indexOf(quote, at)
          const end = opening === -1 ? chunk.length : opening
          countStructure(chunk, at, end)
          keep(chunk.subarray(at, end + 1))
          if (opening !== -1) openString()
          at = end + 1
          continue
        }
        const end = findEnd(at, escaped)
        if (end.at > at) toSpill.push(...takeString(chunk.subarray(at, end.at)))
        escaped = end.escaped
        if (end.at < chunk.length) {
          closeString()
          keep(chunk.subarray(end.at, end.at + 1))
        }
        at = end.at + 1
      }
      return toSpill
    },
    get keptBytes() {
      return keptBytes
    },
    end: () => ({ json: kept.subarray(0, keptBytes), spilled }),
  }
}

interface EndOfString {
  /** Index of the closing quote; the chunk's length when it is not in this chunk. */
  readonly at: number
  /** Whether the last byte of the chunk escapes the first of the next. */
  readonly escaped: boolean
}

/** Finds where strings of the chunk end. The next backslash is looked for once, not once for each string. */
function endsOfStrings(chunk: Buffer): (from: number, escaped: boolean) => EndOfString {
  let nextBackslash = -1
  const backslashAfter = (at: number) => {
    if (nextBackslash < at) {
      const found = chunk.indexOf(backslash, at)
      nextBackslash = found === -1 ? chunk.length : found
    }
    return nextBackslash
  }
  return (from, escaped) => {
    let at = escaped ? from + 1 : from
    let end = -1
    for (;;) {
      if (end < at) end = chunk.indexOf(quote, at)
      if (end === -1) end = chunk.length
      const slash = backslashAfter(at)
      if (slash >= end) return { at: end, escaped: false }
      at = slash + 2
      if (at > chunk.length) return { at: chunk.length, escaped: true }
    }
  }
}
