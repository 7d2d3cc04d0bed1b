import { rmSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { TrafficBatch } from '../../core/traffic.ts'
import { replaceFileSync } from '../../infra/replace-file.ts'
import { readChecked, writeChecked } from '../checked-json.ts'
import { keepAside, pruneAside } from './set-aside.ts'

/** Consecutive segments of one stream, to be applied together. */
export interface Run {
  readonly streamId: string
  readonly first: number
  readonly batches: readonly TrafficBatch[]
}

/**
 * Segments on disk that wait to be applied, those of ended edges too: `<dir>/<stream id>/<number>.json`. The thread that counts waits for its disk,
 * because it has nothing else to do: through Node's pool of threads each segment takes three times as long of a processor.
 */
export interface Segments {
  /** The last segment of this edge that is still there, and the position in the ring behind its hits. */
  readonly newest: { readonly number: number; readonly ringEnd: number } | undefined
  /** Durable when this returns. */
  write(number: number, ringEnd: number, batch: TrafficBatch): Promise<void>
  /** Of all segments that wait. */
  readonly bytes: number
  /** The oldest segments, or one alone; undefined when none wait. Damaged ones are set aside. */
  read(maxSegments?: number): Promise<Run | undefined>
  /** Removes segments that were applied. */
  remove(run: Run): Promise<void>
  /** Sets the first segment of a run aside, which cannot be applied. */
  setAside(run: Run, why: string): Promise<void>
}

export interface SegmentsOptions {
  readonly dir: string
  /** Of this edge. */
  readonly streamId: string
  /** Hears of segments that are lost. */
  readonly onLost: (segment: { readonly stream_id: string; readonly segment: number; readonly reason: string }) => void
}

const format = 'plinth-traffic-1'
const maxRunSegments = 64
const maxRunBytes = 4 * 1024 * 1024
const numbered = /^(\d{12})\.json$/
const uuid = /^[0-9a-f-]{36}$/

interface Content {
  readonly ring_end: number
  readonly batch: TrafficBatch
}

export async function openSegments({ dir, streamId, onLost }: SegmentsOptions): Promise<Segments> {
  await mkdir(join(dir, streamId), { recursive: true, mode: 0o700 })
  const fileOf = (stream: string, number: number) => join(dir, stream, `${String(number).padStart(12, '0')}.json`)
  await pruneAside(dir)
  const streams = await readStreams(dir)
  const own = streams.get(streamId) ?? new Map<number, number>()
  let bytes = [...streams.values()].flatMap((sizes) => [...sizes.values()]).reduce((sum, size) => sum + size, 0)
  let newest: Segments['newest']
  const recent = createRecent()

  function forget(stream: string, number: number): void {
    const size = streams.get(stream)?.get(number) ?? 0
    bytes -= size
    streams.get(stream)?.delete(number)
    if (stream === streamId) recent.delete(number, size)
  }

  async function setAside(stream: string, number: number, reason: string): Promise<void> {
    onLost({ stream_id: stream, segment: number, reason })
    await keepAside(dir, fileOf(stream, number), stream, number)
    forget(stream, number)
  }

  async function loadBatch(stream: string, number: number): Promise<TrafficBatch | undefined> {
    const known = stream === streamId ? recent.get(number) : undefined
    return known ?? (await load(stream, number))?.batch
  }

  async function load(stream: string, number: number): Promise<Content | undefined> {
    const text = await readFile(fileOf(stream, number), 'utf8').catch(emptyWhenUnreadable)
    const content = readChecked(format, text) as Content | undefined
    if (!content) await setAside(stream, number, 'it is damaged')
    return content
  }

  /** The oldest stream that has segments. Folders of ended edges are removed when they are empty. */
  async function oldestStream(): Promise<[string, Map<number, number>] | undefined> {
    for (const [stream, sizes] of streams) {
      if (sizes.size > 0) return [stream, sizes]
      if (stream === streamId) continue
      streams.delete(stream)
      await rm(join(dir, stream), { recursive: true, force: true })
    }
    return undefined
  }

  const last = [...own.keys()].at(-1)
  const content = last === undefined ? undefined : await load(streamId, last)
  if (last !== undefined && content) newest = { number: last, ringEnd: content.ring_end }

  return {
    newest,
    async write(number, ringEnd, batch) {
      const text = writeChecked(format, { ring_end: ringEnd, batch } satisfies Content)
      replaceFileSync(fileOf(streamId, number), text, { mode: 0o600 })
      const size = Buffer.byteLength(text)
      own.set(number, size)
      streams.set(streamId, own)
      bytes += size
      recent.add(number, batch, size)
    },
    get bytes() {
      return bytes
    },
    async read(maxSegments = maxRunSegments) {
      for (;;) {
        const oldest = await oldestStream()
        if (!oldest) return undefined
        const [stream, sizes] = oldest
        const run = await readRun(sizes, maxSegments, (number) => loadBatch(stream, number))
        if (run) return { streamId: stream, ...run }
      }
    },
    async remove({ streamId: stream, first, batches }) {
      for (let number = first; number < first + batches.length; number++) {
        rmSync(fileOf(stream, number), { force: true })
        forget(stream, number)
      }
    },
    setAside: ({ streamId: stream, first }, why) => setAside(stream, first, why),
  }
}

/** A file that can never be read must not keep those behind it waiting; with too many open files, it can be read later. */
function emptyWhenUnreadable(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT' || error.code === 'EIO') return ''
  throw error
}

/** Undefined when all segments up to the first gap are damaged; they are set aside then. */
async function readRun(
  sizes: ReadonlyMap<number, number>,
  maxSegments: number,
  load: (number: number) => Promise<TrafficBatch | undefined>,
): Promise<Omit<Run, 'streamId'> | undefined> {
  const [first = 0] = sizes.keys()
  const batches: TrafficBatch[] = []
  let bytes = 0
  for (let number = first; batches.length < maxSegments; number++) {
    const size = sizes.get(number)
    bytes += size ?? 0
    if (size === undefined || (batches.length > 0 && bytes > maxRunBytes)) break
    const batch = await load(number)
    if (!batch) break
    batches.push(batch)
  }
  return batches.length > 0 ? { first, batches } : undefined
}

/** What this edge wrote lately, so that it need not be read again. */
function createRecent() {
  const batches = new Map<number, TrafficBatch>()
  let bytes = 0
  return {
    get: (number: number) => batches.get(number),
    add(number: number, batch: TrafficBatch, size: number) {
      if (bytes + size > maxRunBytes) return
      batches.set(number, batch)
      bytes += size
    },
    delete(number: number, size: number) {
      if (batches.delete(number)) bytes -= size
    },
  }
}

/** The sizes of waiting segments by number, of each stream. Ids of streams and numbers grow with time. */
async function readStreams(dir: string): Promise<Map<string, Map<number, number>>> {
  const streams = new Map<string, Map<number, number>>()
  for (const stream of (await readdir(dir)).filter((name) => uuid.test(name)).sort()) {
    streams.set(stream, await sizesOf(join(dir, stream)))
  }
  return streams
}

async function sizesOf(folder: string): Promise<Map<number, number>> {
  const files = (await readdir(folder)).filter((name) => numbered.test(name)).sort()
  const sizes = new Map<number, number>()
  for (const file of files) sizes.set(Number(numbered.exec(file)?.[1]), (await stat(join(folder, file))).size)
  return sizes
}
