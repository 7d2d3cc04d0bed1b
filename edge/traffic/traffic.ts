import { randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { fileKindOf } from '../../core/traffic-hits.ts'
import type { Logger } from '../../infra/log.ts'
import { clientAddress } from '../address-limit.ts'
import { type Hit, hitFlags, type NotedRequest } from './hit.ts'
import { createRing, droppedHits, RingWriter } from './ring.ts'

/** Counts what visitors of sites are answered. */
export interface Traffic {
  /**
   * Notes one answered request of a site. Nothing waits for it.
   * @param mediaType of the response
   * @param bytes of the body that were sent
   */
  record(siteId: string, req: IncomingMessage, status: number, mediaType: string, bytes: number): void
}

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
  new Worker(join(import.meta.dirname, 'thread.ts'), {
    workerData: data,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 8 },
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

/** Types that are remembered; owners can invent others. */
const maxKnownTypes = 500

/** What is noted of a response until it is written to the ring. */
interface Answered {
  siteId: string
  req: Pick<IncomingMessage, 'headers' | 'method' | 'url' | 'socket'>
  atMs: number
  status: number
  flags: number
  bytes: number
}

const noSocket = { remoteAddress: undefined } as unknown as IncomingMessage['socket']
const nothingAnswered: Answered = {
  siteId: '',
  req: { headers: {}, method: 'GET', url: '', socket: noSocket },
  atMs: 0,
  status: 0,
  flags: 0,
  bytes: 0,
}
/** Requests are written to the ring together: one alone finds none of the code for it in the processor's caches, and takes five times as long. */
const maxPending = 64
const maxPendingMs = 20

function createRecorder(writer: RingWriter, now: () => number): Pick<Traffic, 'record'> & { flush(): void } {
  const kinds = new Map<string, number>()
  const kindOf = (mediaType: string): number => {
    const known = kinds.get(mediaType)
    if (known !== undefined) return known
    const kind = fileKindOf(mediaType)
    const flag = kind === 'page' ? hitFlags.page : kind === 'download' ? hitFlags.download : 0
    if (kinds.size < maxKnownTypes) kinds.set(mediaType, flag)
    return flag
  }
  // the same objects for all, so that nothing is allocated for a request
  const client = { siteId: '', host: '', userAgent: '', address: '' }
  const request: NotedRequest = { status: 0, flags: 0, client, target: '', referer: '' }
  const hit: Hit = { atMs: 0, bytes: 0, request }
  const pending = Array.from({ length: maxPending }, () => ({ ...nothingAnswered }))
  let count = 0
  let flushing: NodeJS.Timeout | undefined

  function append({ siteId, req, atMs, status, flags, bytes }: Answered): void {
    const { headers, method, url = '' } = req
    hit.atMs = atMs
    hit.bytes = bytes
    request.status = status
    request.flags =
      flags |
      (method === 'HEAD' ? hitFlags.head : 0) |
      (headers['accept-language'] ? hitFlags.acceptsLanguage : 0) |
      (isPrefetch(headers['sec-purpose'] ?? headers.purpose) ? hitFlags.prefetch : 0) |
      (status === 206 && beginsAtStart(headers.range) ? hitFlags.fromStart : 0)
    client.siteId = siteId
    client.host = headers.host ?? ''
    client.userAgent = headers['user-agent'] ?? ''
    client.address = clientAddress(req)
    request.target = url
    request.referer = headers.referer ?? ''
    writer.append(hit)
  }

  function flush(): void {
    clearTimeout(flushing)
    flushing = undefined
    for (const answered of pending) {
      if (count === 0) break
      append(answered)
      answered.req = nothingAnswered.req
      count -= 1
    }
  }

  function record(siteId: string, req: IncomingMessage, status: number, mediaType: string, bytes: number): void {
    const next = pending[count]
    if (!next) return
    next.siteId = siteId
    next.req = req
    next.atMs = now()
    next.status = status
    next.flags = kindOf(mediaType)
    next.bytes = bytes
    count += 1
    if (count === maxPending) flush()
    else flushing ??= setTimeout(flush, maxPendingMs).unref()
  }

  return { record, flush }
}

/** Pages that a browser fetches before anybody asks for them (`Sec-Purpose: prefetch` of the Fetch standard, `Purpose` of older browsers). */
const isPrefetch = (purpose: string | string[] | undefined) => typeof purpose === 'string' && purpose.startsWith('prefetch')

const beginsAtStart = (range = '') => /^bytes=\s{0,5}0-/i.test(range.slice(0, 20))
