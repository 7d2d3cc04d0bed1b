import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Counter } from '../../infra/limits.ts'
import { dropBody } from '../body.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import type { RecordRequest } from '../record-request.ts'
import { allowOrigin, blockAnswer, findBlock } from './form-answers.ts'
import { submit_form } from './form-operation.ts'

const formPath = /^\/f\/([^/?]+)(?:\?|$)/
const route = `${submit_form.method} ${submit_form.path}`

/**
 * Refusals in one turn of the event loop, of about 0.05 ms each. Others would wait for a pile of refusals several times, because the answer to each
 * of their queries is read in another turn: beside 400 refusals at once, a request of five queries takes 15 ms instead of 40.
 */
const refusalsPerTurn = 16

/**
 * Answers the posts of addresses and sites that have used up their rate before Koa sees them, so that a flood of them costs little: half of
 * the processor time. The answer is the same. `refuse` returns false when the request is to be handled as usual.
 */
export function createBlockedPosts({ clock }: Pick<Deps, 'clock'>, blocks: Counter, usualHeaders: object, record: RecordRequest) {
  const answerLater = createPacer(refusalsPerTurn)
  return function refuse(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '', headers } = request
    const site_id = method === submit_form.method && formPath.exec(url)?.[1]
    if (!site_id) return false
    const startedAt = performance.now()
    const now = clock()
    const block = findBlock(blocks, { site_id: site_id.toLowerCase(), network: clientNetwork(request) }, now)
    if (!block) return false
    answerLater(() => {
      const { status, headers: own, body } = blockAnswer(block, now, request)
      const { origin = '' } = headers
      response.once('finish', () => dropBody(request))
      response.writeHead(status, {
        ...usualHeaders,
        ...(origin !== '' && allowOrigin(origin)),
        ...own,
        'content-length': Buffer.byteLength(body),
      })
      response.end(body)
      record({ route, method, path: `/f/${site_id}`, status, ms: performance.now() - startedAt })
    })
    return true
  }
}

/** Does work in its order, so much of it in each turn of the event loop. */
function createPacer(perTurn: number) {
  const waiting: (() => void)[] = []
  function work(): void {
    for (const one of waiting.splice(0, perTurn)) one()
    if (waiting.length > 0) setImmediate(work)
  }
  return (one: () => void): void => {
    if (waiting.push(one) === 1) setImmediate(work)
  }
}
