import { buffer } from 'node:stream/consumers'
import { FetchError } from '../net/fetch-error.ts'
import { openGuardedClient } from '../net/guarded-fetch.ts'
import { type Members, membersOf, PaymentError } from './provider.ts'

/** The time limit of one request, with the look-up of the name and the response. */
const timeoutMs = 10_000
const maxBytes = 512 * 1024
const maxSaidLength = 200

export interface ProviderRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
  readonly authorization: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: { readonly type: string; readonly text: string }
}

/** Sends one request and returns the JSON of its answer; undefined for 404. @throws PaymentError `refused` or `unavailable` */
export type Send = (request: ProviderRequest) => Promise<Members | undefined>

/**
 * Sends requests to one provider. The operator chooses its address, which may therefore be private; redirects are not followed, so that the
 * credentials reach no other host.
 */
export function openSend(title: string, origin: string): Send {
  const unavailable = (why: string) => new PaymentError('unavailable', `${title} ${why}`)
  return async ({ method, path, authorization, headers, body }) => {
    await using client = openGuardedClient({ allowPrivate: true, timeoutMs })
    const sent = { accept: 'application/json', ...headers, ...(body && { 'content-type': body.type }) }
    const request = { method, url: origin + path, headers: sent, authorization, maxBytes }
    const answered = await client
      .request({ ...request, ...(body && { body: Buffer.from(body.text) }) })
      .then(async ({ status, body }) => ({ status, members: parse(await buffer(body)) }))
      .catch((error: unknown) => {
        // the cause could show more than the host
        if (error instanceof FetchError) throw unavailable(`does not answer: ${error.message}`)
        throw error
      })
    const { status, members } = answered
    if (status === 200) {
      if (members) return members
      throw unavailable('did not answer with JSON')
    }
    if (status === 404) return undefined
    const said = saidBy(members)
    // the operator can set another key, and a retry with the same idempotency key may come too early
    if (![400, 402, 422].includes(status)) throw unavailable(`answered ${status}${said}`)
    throw new PaymentError('refused', `${title} does not accept the payment${said}`)
  }
}

function parse(body: Buffer): Members | undefined {
  try {
    return membersOf(JSON.parse(body.toString('utf8')))
  } catch {
    return undefined
  }
}

/** What the provider says is wrong, as one short line: YooKassa in `description`, Stripe in `error.message`. */
function saidBy(members: Members | undefined): string {
  const text = members?.description ?? membersOf(members?.error).message
  if (typeof text !== 'string' || text === '') return ''
  return ` (${text
    .slice(0, maxSaidLength)
    .toWellFormed()
    .replaceAll(/[\s\p{Cc}]/gu, ' ')})`
}
