import { randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Logger } from '../../infra/log.ts'
import { createRecorder, type Recorder } from './recorder.ts'
import { createRing, droppedHits, RingWriter } from './ring.ts'

/** Counts what visitors of sites are answered. */
export type Traffic = Pick<Recorder, 'record'>

export interface OpenedTraffic extends Traffic, AsyncDisposable {
  /** Hits that were not counted since the start, because the ring or the disk was full. */
  readonly droppedHits: number
}

export interface TrafficOptions {
  /** Where segments wait for PostgreSQL. No other process may use it. */
  readonly dir: string
  readonly databaseUrl: string
  /** PLINTH_SECRET_KEY */
  readonly secretKey: Uint8Array
  readonly log: Logger
  readonly now?: (() => number) | undefined
}

/** What the thread is given. */
export interface ThreadData {
  readonly ring: SharedArrayBuffer
  readonly dir: string
  readonly streamId: string
  readonly databaseUrl: string
  readonly secretKey: Uint8Array
  readonly salts: ReadonlyMap<string, Uint8Array>
  readonly maxWaitingBytes?: number | undefined
  readonly saltsEveryMs?: number | undefined
}

export type ThreadMessage =
  | { readonly salts: ReadonlyMap<string, Uint8Array> }
  | { readonly report: string; readonly fields: Readonly<Record<string, unknown>>; readonly cause: string }

const restartMs = 1000
const lookForDroppedMs = 60_000
/** The end of the process waits so long for PostgreSQL; what is not stored by then is stored by the next start. */
const stopMs = 6000

export const startThread = (data: ThreadData): Worker =>
  new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: data,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 4 },
  })

/**
 * Notes answered requests in shared memory, from which a thread counts them: into segments on disk at most 250 ms later, and from there into
 * PostgreSQL, each exactly once. A killed edge loses what was not on disk yet. Disposing writes everything.
 */
export function openTraffic({ dir, databaseUrl, secretKey, log, now = Date.now }: TrafficOptions): OpenedTraffic {
  const ring = createRing()
  const fixed = { ring, dir, streamId: randomUUIDv7(), databaseUrl, secretKey }
  let salts: ThreadData['salts'] = new Map()
  let isClosing = false
  let restart: NodeJS.Timeout | undefined
  let worker = start()

  function start(): Worker {
    const thread = startThread({ ...fixed, salts })
    thread.unref()
    thread.on('message', (message: ThreadMessage) => {
      if ('salts' in message) salts = message.salts
      else log.warn({ ...message.fields, cause: message.cause }, message.report)
    })
    thread.on('error', (error: Error) => log.error({ err: error }, 'the thread that counts hits of sites failed'))
    thread.once('exit', () => {
      if (isClosing) return
      log.error('the thread that counts hits of sites has ended; it is started again')
      restart = setTimeout(() => {
        worker = start()
      }, restartMs).unref()
    })
    return thread
  }

  const recorder = createRecorder(new RingWriter(ring), now)
  let reported = 0
  const reporting = setInterval(() => {
    const dropped = droppedHits(ring)
    if (dropped !== reported) log.warn({ stats_dropped_hits: dropped }, 'hits of sites were not counted')
    reported = dropped
  }, lookForDroppedMs).unref()

  return {
    record: recorder.record,
    get droppedHits() {
      return droppedHits(ring)
    },
    async [Symbol.asyncDispose]() {
      isClosing = true
      recorder.flush()
      clearInterval(reporting)
      clearTimeout(restart)
      if (worker.threadId === -1) worker = start()
      const exited = once(worker, 'exit')
      worker.ref()
      worker.postMessage('stop')
      const late = setTimeout(() => void worker.terminate(), stopMs)
      await exited.catch(() => undefined)
      clearTimeout(late)
    },
  }
}
