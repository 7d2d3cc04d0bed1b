import type { IncomingMessage } from 'node:http'
import { AppError, invalid } from '../core/errors.ts'
import { maxToolBodyBytes, minBodyBytesPerSecond, slowBodyGraceMs, smallBodyBytes } from '../core/limits.ts'

/** The media type of the body without its parameters, in lower case; empty when there is none. */
export const mediaTypeOf = (request: IncomingMessage): string =>
  (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

export function announcedBytes(request: IncomingMessage): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}

/** Whether the request has a body at all. */
const hasBody = (request: IncomingMessage) =>
  request.headers['transfer-encoding'] !== undefined || (announcedBytes(request) ?? 0) > 0

const unsupported = (message: string) => new AppError('unsupported_media_type', message)

/** @throws AppError `unsupported_media_type` naming what is accepted */
export function requireMediaType(request: IncomingMessage, accepted: readonly string[]): void {
  if (!accepted.includes(mediaTypeOf(request))) throw unsupported(`send this request with Content-Type: ${accepted.join(' or ')}`)
  if (isEncoded(request)) throw unsupported('send the body without Content-Encoding; it is taken as it is')
}

/** The charset that the media type of the body names. */
export const charsetOf = (request: IncomingMessage): string | undefined =>
  /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(request.headers['content-type'] ?? '')?.[1]

/** Whether the body has a Content-Encoding, such as a compression. */
export function isEncoded({ headers }: IncomingMessage): boolean {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  return encoding !== '' && encoding !== 'identity'
}

/** @throws AppError `unsupported_media_type` unless it is JSON in UTF-8, as RFC 8259 has it */
export function requireJson(request: IncomingMessage): void {
  requireMediaType(request, ['application/json'])
  const charset = charsetOf(request)
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) throw unsupported(`send JSON in UTF-8, not in ${charset}`)
}

/** Refuses a body for an operation that takes none, unless it is JSON, which is ignored. */
export function refuseOtherBodies(request: IncomingMessage): void {
  if (hasBody(request)) requireJson(request)
}

/** How slowly a body may arrive: a minimum average after a grace period. */
export interface Pace {
  readonly graceMs: number
  readonly minBytesPerSecond: number
}

const usualPace: Pace = { graceMs: slowBodyGraceMs, minBytesPerSecond: minBodyBytesPerSecond }

/**
 * Yields the bytes of a body as they arrive. Only the time in which the server waits for the sender counts as slow. When the caller stops
 * early, the connection stays usable for the response; with a pipeline on the request itself it would not.
 * @param hold called with the length of each chunk before it is handed on; may refuse it
 * @param waitForSlot waits until a chunk of a large body may be handed on
 * @throws AppError `too_large`, `invalid` when it breaks off or arrives too slowly
 */
export async function* arriving(
  request: IncomingMessage,
  {
    maxBytes,
    hold,
    waitForSlot,
    pace = usualPace,
  }: {
    readonly maxBytes?: number
    readonly hold?: (bytes: number) => void
    readonly waitForSlot?: () => Promise<void>
    readonly pace?: Pace
  },
): AsyncGenerator<Buffer, void, void> {
  if (maxBytes !== undefined) refuseAnnounced(request, maxBytes)
  const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>
  let bytes = 0
  let waitedMs = 0
  let isWaiting = false
  try {
    for (;;) {
      const startedAt = performance.now()
      const patienceMs = pace.graceMs + (bytes / pace.minBytesPerSecond) * 1000 - waitedMs
      isWaiting = true
      const next = await withDeadline(nextChunk(request, chunks), patienceMs, () => tooSlow(pace))
      isWaiting = false
      waitedMs += performance.now() - startedAt
      if (next.done) return
      bytes += next.value.length
      if (maxBytes !== undefined && bytes > maxBytes) throw tooLarge(maxBytes)
      hold?.(next.value.length)
      if (bytes > smallBodyBytes) await waitForSlot?.()
      yield next.value
    }
  } finally {
    // an iterator that waits for the sender would take the return only when the next chunk is there
    if (!isWaiting) await chunks.return?.()
  }
}

const tooLarge = (maxBytes: number) => new AppError('too_large', `the body is larger than ${maxBytes} bytes`)
const tooSlow = ({ graceMs, minBytesPerSecond }: Pace) =>
  invalid(
    `the body arrived too slowly: after ${graceMs / 1000} s it has to keep up ${minBytesPerSecond / 1024} KB a second; send it again`,
  )

/** Receives a body into memory. @throws AppError as {@link arriving} */
export async function receiveBytes(
  request: IncomingMessage,
  options: { readonly maxBytes: number; readonly hold: (bytes: number) => void; readonly waitForSlot: () => Promise<void> },
): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of arriving(request, options)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Refuses a body by its announced length, when nothing will read it. @throws AppError `too_large` */
export function refuseAnnounced(request: IncomingMessage, maxBytes: number): void {
  if ((announcedBytes(request) ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/**
 * Reads the rest of a body after its request was answered, because many clients read the response only when they have sent everything. The
 * connection is closed when the sender does not keep up the usual pace, or sends more than the largest body may have.
 */
export function dropBody(request: IncomingMessage): void {
  if (request.complete) return
  const { socket } = request
  let seenBytes = socket.bytesRead
  const end = seenBytes + maxToolBodyBytes
  const timer = setInterval(() => {
    if (request.complete || socket.destroyed) return stop()
    const arrived = socket.bytesRead - seenBytes
    seenBytes = socket.bytesRead
    if (arrived < (slowBodyGraceMs / 1000) * minBodyBytesPerSecond || seenBytes > end) socket.destroy()
  }, slowBodyGraceMs)
  function stop(): void {
    clearInterval(timer)
    request.off('end', stop)
    socket.off('close', stop)
  }
  request.once('end', stop)
  socket.once('close', stop)
  request.resume()
}

async function nextChunk(request: IncomingMessage, chunks: AsyncIterator<Buffer>): Promise<IteratorResult<Buffer>> {
  try {
    return await chunks.next()
  } catch (error) {
    if (request.complete) throw error
    throw invalid('the body ended before its announced length')
  }
}

async function withDeadline<T>(work: Promise<T>, patienceMs: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(late()), Math.max(0, patienceMs))
  })
  // a failure after the deadline does not matter
  work.catch(() => undefined)
  try {
    return await Promise.race([work, deadline])
  } finally {
    clearTimeout(timer)
  }
}
