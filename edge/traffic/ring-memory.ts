/** Numbers that both threads know: words of 32 bits. */
export const words = {
  /** Bytes that were ever written and freed, modulo 2^32. */
  head: 0,
  tail: 1,
  /** 1 while the reader sleeps until something is written. */
  waiting: 2,
  dropped: 3,
  segment: 4,
} as const
export const headerBytes = 64

// A record is 40 bytes of numbers and then its texts; its length is a multiple of eight, so that its numbers are aligned. A record never wraps
// around: a length of zero says that the rest of the memory is not used. Everything behind the time and the number of bytes is the noted request:
// its numbers, its texts in the order site, host, program, address, target, referrer, and zeros behind them.
export const requestOffset = 24
export const recordBytes = 40

/** The numbers of a noted request, of 16 bits: its status and flags, and the lengths of its texts. Those of the client are the last, next to its texts. */
export const requestShorts = { status: 0, flags: 1, target: 2, referer: 3, siteId: 4, host: 5, userAgent: 6, address: 7 } as const

/** Methods of Node's buffers that its types lack. They are the fastest for texts with one byte per character. */
interface Latin1Buffer extends Buffer {
  latin1Write(text: string, offset: number, length: number): number
  latin1Slice(start: number, end: number): string
}

export type RingMemory = ReturnType<typeof viewsOf>

/** The memory of a ring as its numbers and texts. */
export function viewsOf(memory: SharedArrayBuffer) {
  return {
    size: memory.byteLength - headerBytes,
    header: new Int32Array(memory, 0, headerBytes / 4),
    integers: new Uint32Array(memory, headerBytes),
    shorts: new Uint16Array(memory, headerBytes),
    doubles: new Float64Array(memory, headerBytes),
    bytes: Buffer.from(memory, headerBytes) as Buffer as Latin1Buffer,
  }
}
