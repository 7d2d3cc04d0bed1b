import { Readable } from 'node:stream'

/** What is read at once for a reader that has paused, and at first. */
const smallPieceBytes = 64 * 1024
/** What is read at once for a reader that keeps up: sending 5 MiB takes half the processor time that it takes with small pieces. */
const largePieceBytes = 512 * 1024
/** After a longer pause a reader gets small pieces again: it takes less than two megabytes a second. */
const longestPauseMs = 250
/** Large pieces that are in use at the same time: 32 MiB. */
const maxLargePieces = 64
/** How long large pieces wait for their next reader: memory that is new costs as much as reading into it. */
const keptMs = 60_000
/** What is read at once for readers of this process, which do not pause for long. */
const streamedPieceBytes = 256 * 1024

/** An open file. */
export interface PieceSource {
  /** Reads into a part of the buffer, from a position in the file. */
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>
  close(): Promise<void> | void
}

/** Takes a piece. It resolves when nothing reads the piece any more, because the next one may lie in the same memory. */
export type WritePiece = (piece: Buffer) => Promise<void>

/** Memory for large pieces, which all readers share. */
export interface LargePieces {
  /** Undefined when too many are in use. */
  take(): Buffer | undefined
  /** @param isFree false: something may still read it */
  giveBack(piece: Buffer, isFree: boolean): void
}

export function createLargePieces(): LargePieces {
  let kept: Buffer[] = []
  let used = 0
  let forgetting: NodeJS.Timeout | undefined
  const forget = () => {
    kept = []
    forgetting = undefined
  }
  return {
    take() {
      if (used === maxLargePieces) return undefined
      used += 1
      return kept.pop() ?? Buffer.allocUnsafeSlow(largePieceBytes)
    },
    giveBack(piece, isFree) {
      used -= 1
      if (!isFree) return
      kept.push(piece)
      forgetting = forgetting?.refresh() ?? setTimeout(forget, keptMs).unref()
    },
  }
}

const ofThisProcess = createLargePieces()

/**
 * Reads the bytes from `start` to `end`, both inclusive, in pieces that grow while their reader keeps up, and closes the file. There is one
 * piece at a time: to read ahead of a reader makes nothing faster, as what is read next comes from the page cache.
 * @throws when the file has fewer bytes, or what `write` throws
 */
export async function sendPieces(
  file: PieceSource,
  start: number,
  end: number,
  write: WritePiece,
  largePieces: LargePieces = ofThisProcess,
): Promise<void> {
  const small = Buffer.allocUnsafeSlow(Math.min(smallPieceBytes, end + 1 - start))
  let large: Buffer | undefined
  let isWritten = true
  try {
    for (let at = start; at <= end; ) {
      const piece = large ?? small
      const { bytesRead } = await file.read(piece, 0, Math.min(piece.length, end + 1 - at), at)
      if (bytesRead === 0) throw new Error(`the file has only ${at} bytes any more`)
      at += bytesRead
      const readAt = performance.now()
      isWritten = false
      await write(piece.subarray(0, bytesRead))
      isWritten = true
      const keepsUp = performance.now() - readAt < longestPauseMs
      if (keepsUp && end + 1 - at > small.length) large ??= largePieces.take()
      else if (!keepsUp && large) {
        largePieces.giveBack(large, isWritten)
        large = undefined
      }
    }
  } finally {
    if (large) largePieces.giveBack(large, isWritten)
    await file.close()
  }
}

/** Streams the bytes from `start` to `end`, both inclusive, and closes the file. A file that was cut since it was opened ends early. */
export function streamPieces(file: PieceSource, start: number, end: number): Readable {
  async function* read(): AsyncGenerator<Buffer> {
    for (let at = start; at <= end; ) {
      const piece = Buffer.allocUnsafeSlow(Math.min(streamedPieceBytes, end + 1 - at))
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield piece.subarray(0, bytesRead)
    }
  }
  // with this mark, no further piece is read ahead of one that waits
  const stream = Readable.from(read(), { objectMode: false, highWaterMark: 1 })
  return stream.on('close', () => void file.close())
}
