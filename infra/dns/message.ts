import { Packet, type Question, type Resource } from 'dns2'

export interface Message {
  readonly id: number
  readonly isReply: boolean
  readonly opcode: number
  /** The server had more records than fit. None were read. */
  readonly truncated: boolean
  readonly recursionDesired: boolean
  readonly rcode: number
  readonly question: Question | undefined
  /** The requested records of the answer section, of class IN. */
  readonly answers: readonly Resource[]
}

export const { TYPE } = Packet
export const RCODE = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const
const { CLASS } = Packet

const maxRecords = 500
/** Compression pointers can make a small message very long to read. 500 records whose names have 255 bytes, read twice, take 320,000 reads. */
const maxReads = 400_000
const exactLength: Readonly<Record<number, number>> = { [TYPE.A]: 4, [TYPE.AAAA]: 16 }
const minLength: Readonly<Record<number, number>> = { [TYPE.CAA]: 3 }

/** A query for one name of class IN, with recursion. */
export function encodeQuery(id: number, name: string, type: number): Buffer {
  const query = new Packet()
  query.header.id = id
  query.header.rd = 1
  query.questions.push(new Packet.Question(name, type, CLASS.IN))
  return query.toBuffer()
}

/**
 * Reads the header, the question and the wanted answers; undefined when the bytes are no such message.
 * `Packet.parse` of dns2 is not safe for untrusted bytes: it trusts the counts of the header, so that twelve bytes cost 3 s of processor
 * time, and an EDNS option of 60 KB costs 15 s. Here its decoders see one bounded record after the other.
 */
export function readMessage(bytes: Buffer, wanted: readonly number[] = []): Message | undefined {
  try {
    const reader = new MessageReader(bytes)
    const header = Packet.Header.parse(reader)
    if (header.qdcount > 1 || header.ancount > maxRecords) return undefined
    const question = header.qdcount === 1 ? Packet.Question.parse(reader) : undefined
    const answers: Resource[] = []
    for (let left = header.tc === 1 ? 0 : header.ancount; left > 0; left--) {
      const record = readRecord(reader, bytes, wanted)
      if (record) answers.push(record)
    }
    return {
      id: header.id,
      isReply: header.qr === 1,
      opcode: header.opcode,
      truncated: header.tc === 1,
      recursionDesired: header.rd === 1,
      rcode: header.rcode,
      question,
      answers,
    }
  } catch {
    return undefined
  }
}

/** Counts in bits, as that of dns2, which takes a microsecond for each byte. Throws after too many reads. */
class MessageReader extends Packet.Reader {
  readonly #bytes: Buffer
  #readsLeft = maxReads

  constructor(bytes: Buffer) {
    super(bytes)
    this.#bytes = bytes
  }

  override read(bits: number): number {
    this.#readsLeft -= 1
    if (this.#readsLeft < 0) throw new RangeError('the message takes too long to read')
    if (this.offset % 8 !== 0 || bits % 8 !== 0 || bits > 32) return super.read(bits)
    const value = this.#bytes.readUIntBE(this.offset / 8, bits / 8)
    this.offset += bits
    return value
  }
}

/** Undefined for a record that is skipped. */
function readRecord(reader: MessageReader, bytes: Buffer, wanted: readonly number[]): Resource | undefined {
  const start = reader.offset
  Packet.Name.decode(reader)
  const type = reader.read(16)
  const recordClass = reader.read(16)
  reader.read(32)
  const length = reader.read(16)
  const end = reader.offset + length * 8
  if (end > bytes.length * 8) throw new RangeError('the record ends after the message')
  const isSized = length === (exactLength[type] ?? length) && length >= (minLength[type] ?? 0)
  if (wanted.includes(type) && recordClass === CLASS.IN && isSized) {
    reader.offset = start
    const record = Packet.Resource.parse(reader)
    reader.offset = end
    return record
  }
  reader.offset = end
  return undefined
}

/** A message in the format of TCP: its length in two bytes, then its bytes (RFC 1035, 4.2.2). */
export function withLength(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return Buffer.concat([length, message])
}
