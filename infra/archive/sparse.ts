import { Header } from 'tar'
import { invalid } from '../../core/errors.ts'

// A sparse file has regions of data, and zeros between them that a tar does not store. GNU tar and bsdtar write them in four ways: an old one in
// header blocks of its own, and those of pax called 0.0, 0.1 and 1.0. The old one is rewritten as 0.1, so that one reader is left.

interface Region {
  readonly offset: number
  readonly size: number
}

/** A sparse file as pax records describe it. */
export interface SparseFile {
  /** Undefined when the header has the true name. */
  readonly name: string | undefined
  /** The size of the file with its zeros. */
  readonly size: number
  /** Undefined in version 1.0, where they stand before the data. */
  readonly regions: readonly Region[] | undefined
}

const blockBytes = 512
const maxRegions = 30_000
const maxDigits = 16
const zeros = Buffer.alloc(64 * 1024)

const damaged = (why: string) => invalid(`the tar.gz is damaged or cut short (a sparse file ${why}); pack the folder again`)

/**
 * Reads what pax records say of a sparse file; undefined when they say nothing of one.
 * @throws AppError `invalid`
 */
export function parseSparse(records: string): SparseFile | undefined {
  if (!records.includes('GNU.sparse.')) return undefined
  const values = new Map<string, string>()
  const pairs: number[] = []
  for (const line of records.split('\n')) {
    const at = line.indexOf(' GNU.sparse.')
    const equals = line.indexOf('=', at)
    if (at < 1 || equals < 0) continue
    const [key, value] = [line.slice(at + ' GNU.sparse.'.length, equals), line.slice(equals + 1)]
    // version 0.0 repeats them for each region
    if (key === 'offset' || key === 'numbytes') pairs.push(numberOf(value))
    else values.set(key, value)
  }
  const size = values.get('realsize') ?? values.get('size')
  if (size === undefined) return undefined
  const map = values.get('map')?.split(',').map(numberOf) ?? pairs
  const isBeforeData = values.get('major') === '1'
  return { name: values.get('name'), size: numberOf(size), regions: isBeforeData ? undefined : regionsOf(map) }
}

function numberOf(text: string): number {
  const value = text.length <= maxDigits && /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(value)) throw damaged('has a size that is no number')
  return value
}

function regionsOf(numbers: readonly number[]): Region[] {
  if (numbers.length % 2 !== 0 || numbers.length / 2 > maxRegions) throw damaged('has a wrong or too long list of regions')
  return Array.from({ length: numbers.length / 2 }, (_, i) => ({ offset: numbers[2 * i] ?? 0, size: numbers[2 * i + 1] ?? 0 }))
}

/**
 * The content of a sparse file with its zeros, from the bytes that the archive holds.
 * @throws AppError `invalid`
 */
export async function* expandSparse(stored: AsyncIterable<Buffer>, file: SparseFile): AsyncGenerator<Buffer> {
  const bytes = readerOf(stored)
  const regions = file.regions ?? (await readMap(bytes))
  let at = 0
  for (const { offset, size } of regions) {
    if (offset < at || offset + size > file.size) throw damaged('has regions that overlap or exceed it')
    yield* zeroBytes(offset - at)
    yield* bytes.take(size)
    at = offset + size
  }
  yield* zeroBytes(file.size - at)
  await bytes.drain()
}

function* zeroBytes(count: number): Generator<Buffer> {
  for (let left = count; left > 0; left -= zeros.length) yield zeros.subarray(0, Math.min(left, zeros.length))
}

/** Version 1.0: decimal numbers, each on a line, up to the end of a block: how many regions, and then offset and size of each. */
async function readMap(bytes: StoredBytes): Promise<Region[]> {
  const numbers: number[] = []
  const isWhole = () => numbers.length > 2 * (numbers[0] ?? Number.POSITIVE_INFINITY)
  for (let rest = ''; !isWhole(); ) {
    for await (const part of bytes.take(blockBytes)) rest += part.toString('latin1')
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    numbers.push(...lines.map(numberOf))
    if ((numbers[0] ?? 0) > maxRegions) throw damaged('has too many regions')
    // without a line end the text would grow with the file
    if (!isWhole() && rest.length > maxDigits) throw damaged('has a size that is no number')
  }
  return regionsOf(numbers.slice(1, 1 + 2 * (numbers[0] ?? 0)))
}

interface StoredBytes {
  take(count: number): AsyncGenerator<Buffer>
  drain(): Promise<void>
}

function readerOf(stored: AsyncIterable<Buffer>): StoredBytes {
  const chunks = stored[Symbol.asyncIterator]()
  let held: Buffer = Buffer.alloc(0)
  return {
    async *take(count) {
      for (let left = count; left > 0; ) {
        if (held.length === 0) {
          const next = await chunks.next()
          if (next.done) throw damaged('has less data than its list of regions says')
          held = next.value
        }
        const part = held.subarray(0, left)
        held = held.subarray(part.length)
        left -= part.length
        yield part
      }
    },
    async drain() {
      while (!(await chunks.next()).done);
    },
  }
}

/** Where a header block has its size, its checksum, its type, and the mark of its format. */
const sizeAt = 124
const checksumAt = 148
const typeAt = 156
const magicAt = 257
const gnuMagic = 'ustar  \0'
const numberBytes = 12

/** Where the first block of an old sparse file has its regions, whether another block follows, and its size; then those of further blocks. */
const first = { regionsAt: 386, regions: 4, isExtendedAt: 482, sizeAt: 483 }
const further = { regionsAt: 0, regions: 21, isExtendedAt: 504 }

/** An old sparse file whose header blocks are being read. */
interface OldSparse {
  readonly header: Buffer
  readonly map: number[]
  isExtended: boolean
}

/** The bytes of a tar with its old GNU sparse headers rewritten as those of pax 0.1. From where a tar is broken, it passes as it is. */
export async function* withoutOldSparse(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  /** The beginning of a block whose rest is in the next chunk. */
  let held: Buffer = Buffer.alloc(0)
  /** Bytes of an entry's content that are still to come. */
  let content = 0
  let sparse: OldSparse | undefined
  let isTracked = true
  for await (const chunk of chunks) {
    const bytes = held.length > 0 ? Buffer.concat([held, chunk]) : chunk
    let [from, at] = [0, 0]
    while (isTracked) {
      const passed = Math.min(content, bytes.length - at)
      at += passed
      content -= passed
      if (content > 0 || bytes.length - at < blockBytes) break
      const block = bytes.subarray(at, at + blockBytes)
      at += blockBytes
      if (sparse) {
        addRegions(sparse, block, further)
      } else if (!isHeader(block)) {
        isTracked = false
      } else if (
        block[typeAt] === 'S'.charCodeAt(0) &&
        block.toString('latin1', magicAt, magicAt + gnuMagic.length) === gnuMagic
      ) {
        if (at - blockBytes > from) yield bytes.subarray(from, at - blockBytes)
        sparse = { header: Buffer.from(block), map: [], isExtended: false }
        addRegions(sparse, block, first)
      } else {
        content = contentBytes(block)
      }
      if (!sparse) continue
      from = at
      if (sparse.isExtended) continue
      yield rewritten(sparse)
      content = contentBytes(sparse.header)
      sparse = undefined
    }
    const end = isTracked ? at : bytes.length
    if (end > from) yield bytes.subarray(from, end)
    held = bytes.subarray(end)
  }
  if (held.length > 0) yield held
}

function addRegions(sparse: OldSparse, block: Buffer, { regionsAt, regions, isExtendedAt }: typeof further): void {
  for (let i = 0; i < regions; i++) {
    const at = regionsAt + 2 * numberBytes * i
    if (block[at] === 0) break
    sparse.map.push(readNumber(block, at), readNumber(block, at + numberBytes))
  }
  if (sparse.map.length > 2 * maxRegions) throw damaged('has too many regions')
  sparse.isExtended = block[isExtendedAt] !== 0
}

/** Octal digits, or, with the first bit set, a binary number. */
function readNumber(block: Buffer, at: number): number {
  if ((block[at] ?? 0) & 0x80) return Number(block.readBigUInt64BE(at + numberBytes - 8))
  const [digits = ''] = /^[0-7 ]*/.exec(block.toString('latin1', at, at + numberBytes)) ?? []
  return Number.parseInt(digits.trim() || '0', 8)
}

function checksumOf(block: Buffer): number {
  let sum = 8 * ' '.charCodeAt(0)
  for (const [index, byte] of block.entries()) if (index < checksumAt || index >= checksumAt + 8) sum += byte
  return sum
}

const isHeader = (block: Buffer) => {
  const written = Number.parseInt(block.toString('latin1', checksumAt, checksumAt + 8).replaceAll(/[^0-7]/g, ''), 8)
  return written === checksumOf(block)
}

/** With padding to whole blocks. The parser takes folders as empty, whatever their headers say. */
function contentBytes(block: Buffer): number {
  if (block[typeAt] === '5'.charCodeAt(0)) return 0
  return Math.ceil(readNumber(block, sizeAt) / blockBytes) * blockBytes
}

/** The header of a regular file, and before it the records of its regions. */
function rewritten({ header, map }: OldSparse): Buffer {
  const records = Buffer.from(
    record('GNU.sparse.size', String(readNumber(header, first.sizeAt))) + record('GNU.sparse.map', map.join(',')),
  )
  const before = new Header({ path: 'PaxHeader', type: 'ExtendedHeader', size: records.length, mode: 0o644, mtime: new Date(0) })
  before.encode()
  const padding = Buffer.alloc(-records.length & (blockBytes - 1))
  header.write('0', typeAt)
  header.fill(0, first.regionsAt, first.sizeAt + numberBytes)
  header.write(`${checksumOf(header).toString(8).padStart(6, '0')}\0 `, checksumAt)
  return Buffer.concat([before.block as Buffer, records, padding, header])
}

/** A record begins with its own length. */
function record(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  let length = rest.length
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length
  return `${length}${rest}`
}
