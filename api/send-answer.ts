import { Readable } from 'node:stream'
import type { Context as Koa } from 'koa'
import { answerHoldBytes, smallAnswerBytes, stalledVisitMs } from '../core/limits.ts'
import type { Admitted } from './admission.ts'
import type { Context } from './context.ts'
import type { Download } from './download.ts'
import { jsonText, linesText, type ReadBatch } from './json-text.ts'
import { loggedPath } from './logged-path.ts'

/** The request and the resources of an answer while it is sent. */
export interface Sending {
  readonly koa: Koa
  readonly admitted: Admitted
  /** Is moved to a large answer: the request is under way until its last byte is sent. */
  readonly held: AsyncDisposableStack
  readonly log: Context['log']
}

const readerOf =
  ({ admitted }: Sending): ReadBatch =>
  (read) =>
    admitted.readBatch(read)

/** Answers with JSON: a small answer as a whole, a large one at the pace of the client. */
export async function sendJson(sending: Sending, answer: unknown): Promise<void> {
  await send(sending, jsonText(answer, readerOf(sending)), 'application/json')
}

/** Answers with a file, at the pace of the client. */
export async function sendDownload(sending: Sending, { type, name, batches }: Download): Promise<void> {
  await send(sending, linesText(batches, readerOf(sending)), type)
  sending.koa.set('content-disposition', `attachment; filename="${name}"`)
}

/**
 * A failure before the first {@link smallAnswerBytes} are there is a usual response. Later it breaks the connection, so that no client takes
 * the part that it has for the whole.
 */
async function send(sending: Sending, pieces: AsyncGenerator<string>, type: string): Promise<void> {
  const { koa, admitted, held } = sending
  let text = ''
  let next = await pieces.next()
  while (!next.done && text.length <= smallAnswerBytes) {
    text += next.value
    next = await pieces.next()
  }
  if (next.done) {
    koa.type = type
    koa.body = text
    return
  }
  try {
    admitted.hold('answers', answerHoldBytes)
  } catch (error) {
    await pieces.return(undefined)
    throw error
  }
  const stream = Readable.from(atPace(sending, [text, next.value], pieces), { objectMode: false })
  const resources = held.move()
  stream.once('close', () => void resources.disposeAsync())
  koa.type = type
  koa.body = stream
}

/** Breaks the connection of a client that takes nothing for a minute. */
async function* atPace(
  { koa, admitted, log }: Sending,
  first: readonly string[],
  rest: AsyncGenerator<string>,
): AsyncGenerator<string> {
  let stalled: NodeJS.Timeout | undefined
  try {
    for await (const piece of chain(first, rest)) {
      await admitted.waitForChunkSlot()
      stalled = setTimeout(() => koa.res.destroy(), stalledVisitMs)
      yield piece
      clearTimeout(stalled)
    }
  } catch (error) {
    log.error({ err: error, path: loggedPath(koa.path) }, 'answer broken off')
    throw error
  } finally {
    clearTimeout(stalled)
  }
}

async function* chain(first: readonly string[], rest: AsyncGenerator<string>): AsyncGenerator<string> {
  try {
    yield* first
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}
