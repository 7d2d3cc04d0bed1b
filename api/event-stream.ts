import { once } from 'node:events'
import { PassThrough, type Readable, type Writable } from 'node:stream'
import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { unprocessable } from '../core/errors.ts'
import type { ServerSentEvent } from './follow-logs.ts'
import type { Operation } from './operation.ts'

/** How often a comment is sent on an idle stream, so that no proxy closes the connection. */
const keepAliveMs = 15_000
const eventStreamType = 'text/event-stream'
const keepAlive = ': keep-alive\n\n'

const follow = z.boolean()
const onRequest = {
  query: {
    follow: follow
      .default(false)
      .describe('true streams server-sent events until the log ends, as does `Accept: text/event-stream`.'),
  },
  header: { 'Last-Event-ID': z.string().optional().describe('When following: the id of the last event received.') },
}
const always = {
  query: {
    follow: follow.default(true).describe('false answers once, with JSON, as does `Accept: application/json`.'),
  },
  header: {},
}

/** The parameters that REST adds to the input of an operation with events, for the OpenAPI document. */
export const followParameters = ({ streamsByDefault }: Operation) => (streamsByDefault ? always : onRequest)

/** The operation as the request wants it: with a response, or with a stream of events instead. */
export function asAnswered(op: Operation, koa: Koa): Operation {
  const { events } = op
  if (!events || !wantsEvents(op, koa)) return op
  return {
    ...op,
    handler: async (ctx, input, target) => {
      const signal = ctx.leaving()
      const following = { signal, lastEventId: koa.get('last-event-id') || undefined }
      const happening = events(ctx, input, target, following)[Symbol.asyncIterator]()
      // a refusal comes before the first event, and is a usual response
      const first = await happening.next()
      koa.type = eventStreamType
      koa.set('x-accel-buffering', 'no')
      return eventStream(first, happening, signal)
    },
  }
}

/** @throws AppError `unprocessable` */
function wantsEvents(op: Operation, koa: Koa): boolean {
  if (koa.method !== 'GET') return false
  const follow = new URLSearchParams(koa.querystring).getAll('follow')
  if (follow.length > 1) throw unprocessable('follow: give it once')
  if (follow.length === 0 && op.streamsByDefault) return koa.accepts(eventStreamType, 'application/json') !== 'application/json'
  if (follow.length === 0) return koa.get('accept').includes(eventStreamType)
  if (follow[0] !== 'true' && follow[0] !== 'false') throw unprocessable('follow must be true or false')
  return follow[0] === 'true'
}

/** A function that makes the {@link Context.leaving} of a request. */
export const leavingOf = (koa: Koa, draining: AbortSignal) => (): AbortSignal => {
  const left = new AbortController()
  koa.res.once('close', () => left.abort())
  if (!koa.writable) left.abort()
  return AbortSignal.any([left.signal, draining])
}

type Happening = AsyncIterator<ServerSentEvent>

function eventStream(first: IteratorResult<ServerSentEvent>, happening: Happening, signal: AbortSignal): Readable {
  const stream = new PassThrough()
  const timer = setInterval(() => stream.write(keepAlive), keepAliveMs)
  stream.once('close', () => clearInterval(timer))
  void send(first, happening, stream, signal)
  return stream
}

/** Sends the events at the pace of the client. */
async function send(first: IteratorResult<ServerSentEvent>, happening: Happening, stream: Writable, signal: AbortSignal) {
  try {
    for (let next = first; !next.done && !signal.aborted; next = await happening.next()) {
      if (!stream.write(frame(next.value))) await once(stream, 'drain', { signal })
    }
    stream.end()
  } catch (error) {
    // clients that still listen see a broken connection, and resume
    if (signal.aborted) stream.end()
    else stream.destroy(error as Error)
  } finally {
    await happening.return?.()
  }
}

const frame = ({ event, id, data }: ServerSentEvent) =>
  `event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
