import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openPieces, type Pieces } from '../../infra/cas/pieces.ts'

const KiB = 1024
const bytes = Buffer.from(Array.from({ length: 1000 * KiB }, (_, i) => (i * 7) % 251))

let dir: string
let path: string
let pieces: Pieces
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-pieces-'))
  path = join(dir, 'file')
})
afterAll(() => rm(dir, { recursive: true }))
beforeEach(async () => {
  await writeFile(path, bytes)
  pieces = openPieces()
})

const stream = async (start = 0, end = bytes.length - 1) => pieces.stream(await open(path), start, end)
/** The lengths of the pieces, in KiB, for a reader that pauses after each. */
async function lengthsOf(read: Readable, pauseMs: number): Promise<number[]> {
  const lengths: number[] = []
  for await (const piece of read as AsyncIterable<Buffer>) {
    lengths.push(piece.length / KiB)
    if (pauseMs > 0) await pause(pauseMs)
  }
  return lengths
}

test.each([
  [0, bytes.length - 1],
  [0, 0],
  [65_535, 65_536],
  [100_000, 999_999],
  [bytes.length - 1, bytes.length - 1],
])('3: the bytes from %i to %i are streamed as they are', async (start, end) => {
  const read = Buffer.concat(await (await stream(start, end)).toArray())
  expect(read.equals(bytes.subarray(start, end + 1))).toBe(true)
})

test('3: pieces grow while the reader keeps up', async () => {
  expect(await lengthsOf(await stream(), 0)).toEqual([64, 256, 256, 256, 168])
})

test('3: a reader that pauses gets small pieces again', async () => {
  const [first, ahead, ...others] = await lengthsOf(await stream(0, 600 * KiB - 1), 300)
  expect([first, ahead]).toEqual([64, 256])
  expect(Math.max(...others)).toBe(64)
})

test('3: 64 readers at once get large pieces, and another one does when one of them has gone', async () => {
  const readers = await Promise.all(Array.from({ length: 64 }, () => stream()))
  const takeTwo = async (read: Readable) => {
    const taken = read[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    return [await taken.next(), await taken.next()].map(({ value }) => value.length / KiB)
  }
  for (const reader of readers) expect(await takeTwo(reader)).toEqual([64, 256])
  expect(new Set(await lengthsOf(await stream(0, 640 * KiB - 1), 0))).toEqual(new Set([64]))
  readers[0]?.destroy()
  expect(await takeTwo(await stream())).toEqual([64, 256])
  for (const reader of readers) reader.destroy()
})

test('3: a file that was cut ends early, and its stream closes it', async () => {
  await truncate(path, 100)
  const file = await open(path)
  expect(Buffer.concat(await pieces.stream(file, 0, bytes.length - 1).toArray())).toHaveLength(100)
  await expect.poll(() => file.fd).toBe(-1)
})

test.each([
  ['before it is read', () => undefined],
  ['while it is read', (read: Readable) => read.read(0)],
])('3: a stream that is given up %s closes its file', async (_when, begin) => {
  const file = await open(path)
  const read = pieces.stream(file, 0, bytes.length - 1)
  begin(read)
  read.destroy()
  await expect.poll(() => file.fd).toBe(-1)
})
