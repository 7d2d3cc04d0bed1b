import { type Hit, maxTextBytes, type NotedRequest } from './hit.ts'
import { createRequestReader } from './noted-requests.ts'
import { headerBytes, type RingMemory, recordBytes, requestOffset, requestShorts, viewsOf, words } from './ring-memory.ts'

/** Roughly 15,000 requests of browsers, which is several times what an edge answers between two drains. */
const ringBytes = 4 * 1024 * 1024

/** Memory that one thread writes and another reads. It outlives both. @param bytes a power of two */
export function createRing(bytes = ringBytes): SharedArrayBuffer {
  return new SharedArrayBuffer(headerBytes + bytes)
}

const lengthOf = (text: string, max: number) => (text.length < max ? text.length : max)

/** The only writer. Nothing of it waits, and nothing is allocated. */
export class RingWriter {
  readonly #views: RingMemory
  #head: number
  /** Not before the reader's. */
  #tail: number

  constructor(memory: SharedArrayBuffer) {
    this.#views = viewsOf(memory)
    const { header } = this.#views
    this.#head = Atomics.load(header, words.head)
    this.#tail = Atomics.load(header, words.tail)
  }

  /**
   * Writes a hit, which the reader sees when it is published. Texts are strings with one byte per character, as those of Node's parser are.
   * @returns false when the ring is full: the hit is counted as dropped
   */
  append(hit: Readonly<Hit>): boolean {
    const { header, size, shorts, integers, doubles, bytes } = this.#views
    const { client, target, referer, status, flags } = hit.request
    const targetLength = lengthOf(target, maxTextBytes.target)
    const refererLength = lengthOf(referer, maxTextBytes.referer)
    const site = lengthOf(client.siteId, maxTextBytes.siteId)
    const host = lengthOf(client.host, maxTextBytes.host)
    const userAgent = lengthOf(client.userAgent, maxTextBytes.userAgent)
    const address = lengthOf(client.address, maxTextBytes.address)
    const length = (recordBytes + targetLength + refererLength + site + host + userAgent + address + 7) & ~7

    let at = this.#head & (size - 1)
    const unused = at + length > size ? size - at : 0
    if (!this.#hasRoom(length + unused)) {
      Atomics.add(header, words.dropped, 1)
      return false
    }
    if (unused > 0) {
      integers[at >> 2] = 0
      at = 0
    }
    integers[at >> 2] = length
    doubles[(at >> 3) + 1] = hit.atMs
    doubles[(at >> 3) + 2] = hit.bytes
    const short = (at + requestOffset) >> 1
    shorts[short + requestShorts.status] = status
    shorts[short + requestShorts.flags] = flags
    shorts[short + requestShorts.target] = targetLength
    shorts[short + requestShorts.referer] = refererLength
    shorts[short + requestShorts.siteId] = site
    shorts[short + requestShorts.host] = host
    shorts[short + requestShorts.userAgent] = userAgent
    shorts[short + requestShorts.address] = address
    // the texts are written over a part of this
    integers[(at + length - 8) >> 2] = 0
    integers[(at + length - 4) >> 2] = 0
    const hostAt = at + recordBytes + site
    const userAgentAt = hostAt + host
    const addressAt = userAgentAt + userAgent
    const targetAt = addressAt + address
    bytes.latin1Write(client.siteId, at + recordBytes, site)
    bytes.latin1Write(client.host, hostAt, host)
    bytes.latin1Write(client.userAgent, userAgentAt, userAgent)
    bytes.latin1Write(client.address, addressAt, address)
    bytes.latin1Write(target, targetAt, targetLength)
    bytes.latin1Write(referer, targetAt + targetLength, refererLength)

    this.#head = (this.#head + unused + length) | 0
    return true
  }

  /** Shows the reader what was written. Once for many hits, because each time waits until the other processors have let go of the memory. */
  publish(): void {
    const { header } = this.#views
    Atomics.store(header, words.head, this.#head)
    if (Atomics.load(header, words.waiting) !== 1) return
    Atomics.store(header, words.waiting, 0)
    Atomics.notify(header, words.head)
  }

  #hasRoom(bytes: number): boolean {
    const { header, size } = this.#views
    const free = () => size - ((this.#head - this.#tail) >>> 0)
    if (bytes <= free()) return true
    this.#tail = Atomics.load(header, words.tail)
    return bytes <= free()
  }
}

/** The only reader. What it has read stays in the ring until it is released. */
export class RingReader {
  readonly #views: RingMemory
  readonly #requests: (at: number, end: number) => NotedRequest

  constructor(memory: SharedArrayBuffer) {
    this.#views = viewsOf(memory)
    this.#requests = createRequestReader(this.#views)
  }

  /** Reads up to `max` hits that are not released yet, oldest first. @returns the position behind the last one */
  read(max: number, take: (request: NotedRequest, atMs: number, bytes: number) => void): number {
    const { header, size, integers, doubles } = this.#views
    const head = Atomics.load(header, words.head)
    let position = Atomics.load(header, words.tail)
    for (let hits = 0; hits < max && position !== head; hits++) {
      if (integers[(position & (size - 1)) >> 2] === 0) position = (position + size - (position & (size - 1))) | 0
      const at = position & (size - 1)
      const length = integers[at >> 2] ?? 0
      const double = at >> 3
      take(this.#requests(at + requestOffset, at + length), doubles[double + 1] ?? 0, doubles[double + 2] ?? 0)
      position = (position + length) | 0
    }
    return position
  }

  /** Frees everything before the position, which is on disk as part of the segment of this number. */
  release(position: number, segment: number): void {
    const { header } = this.#views
    Atomics.store(header, words.segment, segment)
    Atomics.store(header, words.tail, position)
  }

  /** The number of the last segment; 0 at first. */
  get segment(): number {
    return Atomics.load(this.#views.header, words.segment)
  }

  get isEmpty(): boolean {
    const { header } = this.#views
    return Atomics.load(header, words.head) === Atomics.load(header, words.tail)
  }

  /** Whether the position lies behind the first hit that is not released yet. */
  isAhead(position: number): boolean {
    const { header } = this.#views
    const tail = Atomics.load(header, words.tail)
    const used = (Atomics.load(header, words.head) - tail) >>> 0
    const ahead = (position - tail) >>> 0
    return ahead > 0 && ahead <= used
  }

  /** Waits until something is written, or for the time. It costs nothing while it waits. */
  async wait(ms: number): Promise<void> {
    const { header } = this.#views
    const head = Atomics.load(header, words.head)
    Atomics.store(header, words.waiting, 1)
    if (this.isEmpty) await Atomics.waitAsync(header, words.head, head, ms).value
    Atomics.store(header, words.waiting, 0)
  }

  /** Adds hits that are not counted although they were in the ring. */
  addDropped(hits: number): void {
    Atomics.add(this.#views.header, words.dropped, hits)
  }

  /** The hits that were not counted since the memory was made, modulo 2^32. */
  get dropped(): number {
    return Atomics.load(this.#views.header, words.dropped) >>> 0
  }

  /** Frees everything without counting it. */
  drop(): void {
    let hits = 0
    const end = this.read(Number.POSITIVE_INFINITY, () => {
      hits += 1
    })
    this.release(end, this.segment)
    this.addDropped(hits)
  }
}

/** The hits that were not counted since the memory was made, modulo 2^32. */
export const droppedHits = (memory: SharedArrayBuffer) => Atomics.load(new Int32Array(memory), words.dropped) >>> 0
