import { setTimeout as delay } from 'node:timers/promises'
import { pause, untilAborted } from '../../infra/pause.ts'
import type { TrafficStore } from '../../services/feeds/traffic-store.ts'
import { type Classified, type Classify, createClassifier } from './classify.ts'
import { createPrograms } from './programs.ts'
import type { RingReader } from './ring.ts'
import { createSalts, keepSalts, type Salts } from './salts.ts'
import { openSegments, type Segments } from './segments.ts'
import { createShipper, type Report } from './shipper.ts'
import { createTally } from './tally.ts'
import { createVisitors, type Visitors } from './visitors.ts'

export interface CollectorOptions {
  readonly ring: RingReader
  /** Where segments wait. */
  readonly dir: string
  /** Of this run of the edge. */
  readonly streamId: string
  readonly store: TrafficStore
  /** Of an earlier thread of this edge. */
  readonly salts?: Salts | undefined
  /** Hears of the salts that PostgreSQL has given. */
  readonly onSalts?: ((salts: Salts) => void) | undefined
  readonly report: Report
  /** Segments that wait take at most about so much; hits beyond it are dropped. */
  readonly maxWaitingBytes?: number | undefined
  /** How often PostgreSQL is asked for the salts. */
  readonly saltsEveryMs?: number | undefined
}

const usualMaxWaitingBytes = 256 * 1024 * 1024
/** How long hits are gathered for one segment. With what writing takes, a hit is on disk within 250 ms. */
const gatherMs = 150
/** Of one segment. */
const maxHits = 20_000
/** How long the first segment waits for the salts. */
const firstSaltsMs = 1000
const idleMs = 3_600_000
const diskRetryMs = 1000
/** Of attempts to write a segment, one is reported for each so many. */
const reportedAttempts = 60

/** Counts what comes into the ring, until the signal is aborted and everything is on disk and, if possible, in PostgreSQL. */
export async function runCollector(options: CollectorOptions, stop: AbortSignal): Promise<void> {
  const { ring, dir, streamId, store, report, onSalts, saltsEveryMs } = options
  const onLost = (segment: object) => report('hits of sites are lost: a segment was set aside', { ...segment })
  const segments = await openSegments({ dir, streamId, onLost })
  // an earlier thread may have ended between writing a segment and freeing its hits
  const { newest } = segments
  if (newest && ring.isAhead(newest.ringEnd)) ring.release(newest.ringEnd, newest.number)

  const salts = createSalts(Date.now, options.salts)
  const visitors = createVisitors(salts)
  const shipper = createShipper(segments, store, report)
  const drain = createDrain(options, { segments, visitors, onWritten: () => shipper.wake() }, stop)

  const firstSalts = Promise.withResolvers<void>()
  const adopt = (given: Salts) => {
    if (salts.adopt(given)) visitors.clear()
    onSalts?.(salts.current)
  }
  const salting = keepSalts(store, salts, { adopt, looked: firstSalts.resolve, everyMs: saltsEveryMs }, stop)
  const shipped = new AbortController()
  const shipping = shipper.run(shipped.signal)
  await Promise.race([firstSalts.promise, delay(firstSaltsMs)])
  while (!stop.aborted) {
    const state = await drain()
    if (state === 'empty') await untilAborted(ring.wait(idleMs), stop)
    if (state !== 'more') await pause(gatherMs, stop)
  }
  for (let state = await drain(); state === 'more' || state === 'drained'; ) state = await drain()
  shipped.abort()
  await Promise.all([salting, shipping])
}

interface Draining {
  readonly segments: Segments
  readonly visitors: Visitors
  readonly onWritten: () => void
}

/** `failed`: the hits stay in the ring. */
type Drained = 'empty' | 'drained' | 'more' | 'failed'

/** Brings a function that writes what the ring has as one segment. */
function createDrain(options: CollectorOptions, draining: Draining, stop: AbortSignal): () => Promise<Drained> {
  const { ring, report, maxWaitingBytes = usualMaxWaitingBytes } = options
  const { segments, visitors, onWritten } = draining
  const programs = createPrograms()
  const classify = reportFailures(createClassifier(programs, visitors), options)

  return async () => {
    if (ring.isEmpty) return 'empty'
    if (segments.bytes >= maxWaitingBytes) {
      ring.drop()
      return 'drained'
    }
    programs.startPeriod()
    const tally = createTally()
    let hits = 0
    const end = ring.read(maxHits, (request, atMs, bytes) => {
      hits += 1
      const classified = classify(request, atMs, bytes)
      if (classified) tally.add(classified)
    })
    const batch = { ...tally.batch(Date.now(), visitors), dropped_hits: ring.dropped }
    const number = ring.segment + 1
    if (!(await persist(() => segments.write(number, end, batch), report, stop))) return 'failed'
    ring.release(end, number)
    onWritten()
    return hits === maxHits ? 'more' : 'drained'
  }
}

/** A hit that cannot be classified is dropped: it would end every thread that reads it. */
function reportFailures(classify: Classify, { ring, report }: CollectorOptions) {
  let isReported = false
  return (...hit: Parameters<Classify>): Classified | undefined => {
    try {
      return classify(...hit)
    } catch (error) {
      ring.addDropped(1)
      if (!isReported) report('a hit of a site could not be read; later ones are not reported', { err: error })
      isReported = true
      return undefined
    }
  }
}

/** Repeats writing while the disk is full. @returns false when it still fails at the end */
async function persist(write: () => Promise<void>, report: Report, stop: AbortSignal): Promise<boolean> {
  for (let attempt = 0; ; attempt++) {
    try {
      await write()
      return true
    } catch (error) {
      if (attempt % reportedAttempts === 0) report('hits of sites could not be written to disk', { err: error })
      if (stop.aborted) return false
      await pause(diskRetryMs, stop)
    }
  }
}
