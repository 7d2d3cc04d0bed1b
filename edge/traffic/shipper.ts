import { pause, untilAborted } from '../../infra/pause.ts'
import type { TrafficStore } from '../../services/feeds/traffic-store.ts'
import type { Run, Segments } from './segments.ts'

/** Tells the owner of the machine, in the log of the edge. */
export type Report = (message: string, fields: Readonly<Record<string, unknown>>) => void

export interface Shipper {
  /** There is another segment. */
  wake(): void
  /** Applies segments until the signal is aborted, and once more after that. */
  run(stop: AbortSignal): Promise<void>
}

/** How long segments are gathered for one transaction, of which every one costs a few milliseconds. */
const gatherMs = 1000
const firstRetryMs = 100
const maxRetryMs = 2000
/** Failures that follow each other are reported once in this time. */
const reportEveryMs = 60_000
/** So many segments are tried one by one when one of them cannot be added. */
const singles = 64

/** Applies the segments that wait, oldest first. While PostgreSQL is away they wait. */
export function createShipper(segments: Segments, store: Pick<TrafficStore, 'apply'>, report: Report): Shipper {
  let woken = Promise.withResolvers<void>()
  let oneByOne = 0
  let reportedAt = Number.NEGATIVE_INFINITY

  /** @throws when PostgreSQL does not answer */
  async function apply(run: Run): Promise<void> {
    try {
      await store.apply(run.streamId, run.first, run.batches)
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (run.batches.length > 1) oneByOne = singles
      else await segments.setAside(run, 'PostgreSQL refuses it')
      return
    }
    await segments.remove(run)
  }

  async function shipAll(): Promise<void> {
    for (;;) {
      const run = await segments.read(oneByOne > 0 ? 1 : undefined)
      if (!run) return
      oneByOne = Math.max(0, oneByOne - 1)
      await apply(run)
    }
  }

  function reportFailure(error: unknown): void {
    if (performance.now() - reportedAt < reportEveryMs) return
    reportedAt = performance.now()
    report('hits of sites wait on disk, because they could not be stored', { err: error, waiting_bytes: segments.bytes })
  }

  return {
    wake: () => woken.resolve(),
    async run(stop) {
      let retryMs = firstRetryMs
      while (!stop.aborted) {
        woken = Promise.withResolvers<void>()
        try {
          await shipAll()
          retryMs = firstRetryMs
          await untilAborted(woken.promise, stop)
          await pause(gatherMs, stop)
        } catch (error) {
          reportFailure(error)
          // to read 64 segments for each attempt takes 10 MB while PostgreSQL is away
          oneByOne = Math.max(oneByOne, 1)
          await pause(retryMs, stop)
          retryMs = Math.min(maxRetryMs, retryMs * 2)
        }
      }
      await shipAll().catch(reportFailure)
    },
  }
}

/**
 * Whether an error is about the data itself (SQLSTATE class 22), so that repeating is of no use. Class 23 is not: a site may have been removed at
 * the same moment.
 */
const isRefusal = (error: unknown) =>
  error instanceof RangeError || /^22[0-9A-Z]{3}$/.test((error as NodeJS.ErrnoException | undefined)?.code ?? '')
