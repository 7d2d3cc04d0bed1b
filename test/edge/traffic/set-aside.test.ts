import { randomUUIDv7 } from 'node:crypto'
import { mkdtemp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { openSegments } from '../../../edge/traffic/segments.ts'

const dirs: string[] = []
afterAll(async () => {
  for (const dir of dirs) await rm(dir, { recursive: true, force: true })
})

async function makeSegments(count: number, streamId = randomUUIDv7()) {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-segments-'))
  dirs.push(dir)
  const lost: number[] = []
  const open = () => openSegments({ dir, streamId, onLost: ({ segment }) => lost.push(segment) })
  const segments = await open()
  for (let number = 1; number <= count; number++) await segments.write(number, 0, { at: 1, sites: [], live: [] })
  const fileOf = (number: number) => join(dir, streamId, `${String(number).padStart(12, '0')}.json`)
  return {
    dir,
    streamId,
    lost,
    open,
    segments,
    fileOf,
    kept: async () => (await readdir(dir)).filter((name) => name.endsWith('.bad')),
  }
}

test('K02: of the segments that were set aside the sixteen newest are kept', async () => {
  const { streamId, lost, segments, kept } = await makeSegments(30)
  for (let run = await segments.read(1); run; run = await segments.read(1)) await segments.setAside(run, 'it is refused')
  expect(lost).toHaveLength(30)
  const newest = Array.from({ length: 16 }, (_, n) => `${streamId}-${30 - n}.bad`)
  expect((await kept()).sort()).toEqual(newest.sort())
  expect(segments.bytes).toBe(0)
})

test('K02: the segments that were set aside take at most 16 MiB', async () => {
  const { open, fileOf, kept, dir, streamId } = await makeSegments(6)
  // damaged ones, which only a new start reads
  for (let number = 1; number <= 6; number++) await truncate(fileOf(number), 5 * 1024 * 1024)
  const segments = await open()
  expect(await segments.read()).toBeUndefined()
  expect((await kept()).sort()).toEqual([4, 5, 6].map((number) => `${streamId}-${number}.bad`))
  expect((await stat(join(dir, `${streamId}-6.bad`))).size).toBe(5 * 1024 * 1024)
})

test('K02: a start removes what an earlier edge has set aside beyond the bounds, and no other file', async () => {
  const { dir, open, kept } = await makeSegments(0)
  const [older, newer] = ['01890000-0000-7000-8000-000000000001', '01890000-0000-7000-8000-000000000002']
  for (let n = 0; n < 12; n++) for (const stream of [older, newer]) await writeFile(join(dir, `${stream}-${n}.bad`), 'x')
  await writeFile(join(dir, 'notes.bad'), 'x')
  await open()
  const names = await kept()
  expect(names.filter((name) => name.startsWith(newer))).toHaveLength(12)
  expect(names.filter((name) => name.startsWith(older)).sort()).toEqual([10, 11, 8, 9].map((n) => `${older}-${n}.bad`))
  expect(names).toContain('notes.bad')
})
