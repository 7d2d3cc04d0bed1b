import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createLargePieces, type LargePieces, sendPieces, streamPieces } from '../../infra/cas/pieces.ts'

const KiB = 1024
const bytes = Buffer.from(Array.from({ length: 2000 * KiB }, (_, i) => (i * 7) % 251))
const last = bytes.length - 1
const parts = [
  [0, last],
  [0, 0],
  [65_535, 65_536],
  [100_000, 1_999_999],
  [last, last],
] as const

let dir: string
let path: string
let largePieces: LargePieces
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-pieces-'))
  path = join(dir, 'file')
})
afterAll(() => rm(dir, { recursive: true }))
beforeEach(async () => {
  await writeFile(path, bytes)
  largePieces = createLargePieces()
})

describe('3: what is sent', () => {
  /** The lengths of the pieces, in KiB, for a reader that takes its time for each. */
  async function lengthsFor(pauseMs: (piece: number) => number, pieces = largePieces): Promise<number[]> {
    const lengths: number[] = []
    const take = async (piece: Buffer) => {
      lengths.push(piece.length / KiB)
      await pause(pauseMs(lengths.length))
    }
    await sendPieces(await open(path), 0, last, take, pieces)
    return lengths
  }
  /** Takes large pieces until it is let go. */
  async function reader() {
    const [reached, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const take = async (piece: Buffer) => {
      if (piece.length <= 64 * KiB) return
      reached.resolve()
      await left.promise
    }
    const sent = sendPieces(await open(path), 0, last, take, largePieces)
    await reached.promise
    return { leave: () => left.reject(new Error('left')), sent }
  }

  test.each(parts)('the bytes from %i to %i are those of the file, though pieces share memory', async (start, end) => {
    const taken: Buffer[] = []
    const file = await open(path)
    await sendPieces(file, start, end, async (piece) => void taken.push(Buffer.from(piece)), largePieces)
    expect(Buffer.concat(taken).equals(bytes.subarray(start, end + 1))).toBe(true)
    expect(file.fd).toBe(-1)
  })

  test('pieces grow while the reader keeps up', async () => {
    expect(await lengthsFor(() => 0)).toEqual([64, 512, 512, 512, 400])
  })

  test('a reader that pauses gets small pieces again', async () => {
    expect((await lengthsFor((piece) => (piece === 2 ? 300 : 0))).slice(0, 4)).toEqual([64, 512, 64, 512])
  })

  test('64 readers at once get large pieces, and another one does when one of them has gone', async () => {
    const readers = await Promise.all(Array.from({ length: 64 }, reader))
    expect(new Set(await lengthsFor(() => 0))).toEqual(new Set([64, (bytes.length / KiB) % 64]))
    readers[0]?.leave()
    await expect(readers[0]?.sent).rejects.toThrow('left')
    expect(await lengthsFor(() => 0)).toContain(512)
    for (const { leave } of readers) leave()
    await Promise.allSettled(readers.map(({ sent }) => sent))
  })

  test('memory that may still be read is not used again', async () => {
    const first = await reader()
    first.leave()
    await expect(first.sent).rejects.toThrow('left')
    const kept: Buffer[] = []
    const keep: LargePieces = { ...largePieces, giveBack: (piece, isFree) => isFree && kept.push(piece) }
    await expect(
      sendPieces(
        await open(path),
        0,
        last,
        async (piece) => {
          if (piece.length > 64 * KiB) throw new Error('left')
        },
        keep,
      ),
    ).rejects.toThrow('left')
    expect(kept).toEqual([])
    await lengthsFor(() => 0, keep)
    expect(kept).toHaveLength(1)
  })

  test('a file that was cut is an error, and is closed', async () => {
    await truncate(path, 100)
    const file = await open(path)
    await expect(sendPieces(file, 0, last, async () => undefined, largePieces)).rejects.toThrow('only 100 bytes')
    expect(file.fd).toBe(-1)
  })
})

describe('3: what is streamed', () => {
  test.each(parts)('the bytes from %i to %i are those of the file', async (start, end) => {
    const read = Buffer.concat(await streamPieces(await open(path), start, end).toArray())
    expect(read.equals(bytes.subarray(start, end + 1))).toBe(true)
  })

  test('a file that was cut ends early, and its stream closes it', async () => {
    await truncate(path, 100)
    const file = await open(path)
    expect(Buffer.concat(await streamPieces(file, 0, last).toArray())).toHaveLength(100)
    await expect.poll(() => file.fd).toBe(-1)
  })

  test.each([
    ['before it is read', () => undefined],
    ['while it is read', (read: NodeJS.ReadableStream) => read.read(0)],
  ])('a stream that is given up %s closes its file', async (_when, begin) => {
    const file = await open(path)
    const read = streamPieces(file, 0, last)
    begin(read)
    read.destroy()
    await expect.poll(() => file.fd).toBe(-1)
  })
})
