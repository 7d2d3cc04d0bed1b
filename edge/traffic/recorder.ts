import type { IncomingMessage } from 'node:http'
import { fileKindOf } from '../../core/traffic-hits.ts'
import { clientAddress } from '../clients.ts'
import { type Hit, hitFlags, type NotedRequest } from './hit.ts'
import type { RingWriter } from './ring.ts'

/** Types that are remembered; owners can invent others. */
const maxKnownTypes = 500
/** Requests are written to the ring together: one alone finds none of the code for it in the processor's caches, and takes five times as long. */
const maxPending = 64
const maxPendingMs = 20

/** A response that is not written to the ring yet. */
interface Answered {
  readonly siteId: string
  readonly req: IncomingMessage
  readonly atMs: number
  readonly status: number
  readonly flags: number
  readonly bytes: number
}

export interface Recorder {
  /**
   * Notes one answered request of a site. Nothing waits for it.
   * @param mediaType of the response
   * @param bytes of the body that were sent
   */
  readonly record: (siteId: string, req: IncomingMessage, status: number, mediaType: string, bytes: number) => void
  /** Writes what is not written yet. */
  readonly flush: () => void
}

/** Writes answered requests to the ring, at most 64 of them together and at most 20 ms late. */
export function createRecorder(writer: RingWriter, now: () => number): Recorder {
  const kindOf = createKinds()
  // the same objects for all
  const client = { siteId: '', host: '', userAgent: '', address: '' }
  const request: NotedRequest = { status: 0, flags: 0, client, target: '', referer: '' }
  const hit: Hit = { atMs: 0, bytes: 0, request }
  let pending: Answered[] = []
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
    const answered = pending
    pending = []
    for (const one of answered) append(one)
    writer.publish()
  }

  return {
    record(siteId, req, status, mediaType, bytes) {
      pending.push({ siteId, req, atMs: now(), status, flags: kindOf(mediaType), bytes })
      if (pending.length === maxPending) flush()
      else flushing ??= setTimeout(flush, maxPendingMs).unref()
    },
    flush,
  }
}

/** Tells the flag of a media type. */
function createKinds(): (mediaType: string) => number {
  const kinds = new Map<string, number>()
  return (mediaType) => {
    const known = kinds.get(mediaType)
    if (known !== undefined) return known
    const kind = fileKindOf(mediaType)
    const flag = kind === 'page' ? hitFlags.page : kind === 'download' ? hitFlags.download : 0
    if (kinds.size < maxKnownTypes) kinds.set(mediaType, flag)
    return flag
  }
}

/** Pages that a browser fetches before anybody asks for them (`Sec-Purpose: prefetch` of the Fetch standard, `Purpose` of older browsers). */
const isPrefetch = (purpose: string | string[] | undefined) => typeof purpose === 'string' && purpose.startsWith('prefetch')

const beginsAtStart = (range = '') => /^bytes=\s{0,5}0-/i.test(range.slice(0, 20))
