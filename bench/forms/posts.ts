import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

/** A form's post as a visitor's browser sends it, by way of a proxy that names the visitor's address. */
export interface Post {
  readonly siteId: string
  readonly origin: string
  readonly address: string
  readonly type: string
  readonly body: string
  /** As what it is stored when it is accepted; undefined when nothing is stored. */
  readonly storedAs: 'verified' | 'spam' | undefined
}

export interface Target {
  readonly port: number
  /** The host of the platform's base URL. */
  readonly host: string
}

export interface Answered extends Pick<Post, 'storedAs'> {
  readonly status: number
  /** From the instant at which it was due, so that a generator that falls behind hides nothing. */
  readonly ms: number
}

const agent = new Agent({ keepAlive: true })

/** Sends posts at a fixed rate, whether or not earlier ones have been answered. A connection that breaks is an answer with status 0. */
export async function sendAtRate(target: Target, makePost: () => Post, rate: number, seconds: number): Promise<Answered[]> {
  const sent: Promise<Answered>[] = []
  const began = performance.now()
  for (let i = 0; i < rate * seconds; i++) {
    const due = began + (i * 1000) / rate
    const early = due - performance.now()
    if (early > 0) await pause(early)
    const post = makePost()
    const { storedAs } = post
    sent.push(send(target, post).then((status) => ({ status, storedAs, ms: performance.now() - due })))
  }
  return await Promise.all(sent)
}

async function send({ port, host }: Target, { siteId, origin, address, type, body }: Post): Promise<number> {
  const headers = { host, origin, 'x-forwarded-for': address, 'content-type': type, 'content-length': Buffer.byteLength(body) }
  try {
    const outgoing = request({ host: '127.0.0.1', port, path: `/f/${siteId}`, method: 'POST', headers, agent }).end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    response.resume()
    await once(response, 'end')
    return response.statusCode ?? 0
  } catch {
    return 0
  }
}

/** A good post with the fields of a usual contact form. */
export const goodPost = (site: { readonly id: string; readonly origin: string }, address: string): Post => ({
  siteId: site.id,
  origin: site.origin,
  address,
  type: 'application/json',
  body: JSON.stringify({
    name: 'Ada Lovelace',
    email: 'ada@example.com',
    message: 'Could you send me your price list? '.repeat(6),
    _hp_url: '',
    _submit_time: Date.now() - 20_000,
    _request_id: randomUUID(),
  }),
  storedAs: 'verified',
})
