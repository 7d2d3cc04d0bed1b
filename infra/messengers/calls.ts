import { buffer } from 'node:stream/consumers'
import { FairQueue } from '../fair-queue.ts'
import { FetchError } from '../net/fetch-error.ts'
import { openGuardedClient } from '../net/guarded-fetch.ts'
import { MessengerError } from './provider.ts'

/** The time limit of one call, with the look-up of the name and the response. */
const timeoutMs = 5000
/** How long a call waits for others to end. */
const patienceMs = 2000
const maxBytes = 256 * 1024
/** For so long at most a messenger that asks for a pause is left alone. */
const maxPauseMs = 60_000

export interface MessengerRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. It may contain the token of the bot, so it is never logged. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: object
}

export interface MessengerResponse {
  readonly status: number
  /** Parsed; undefined when it is no JSON. */
  readonly body: unknown
  readonly retryAfterSeconds: number | undefined
}

/** Sends one request. @param payer shares the calls with others. @throws MessengerError `unavailable` */
export type Call = (payer: string, request: MessengerRequest) => Promise<MessengerResponse>

/**
 * Calls of one messenger: at most 30 of this process run at once, shared fairly between payers, so that a slow messenger stalls nothing else.
 * The operator chooses the address, which may therefore be private. Redirects are not followed.
 */
export function openCalls(title: string, base: string): Call {
  const queue = new FairQueue({
    slots: 30,
    slotsPerPayer: 10,
    waitingRoom: {
      total: 300,
      perPayer: 50,
      overflow: () => new MessengerError('unavailable', `too many calls wait for ${title}`),
    },
    patience: { ms: patienceMs, late: () => new MessengerError('unavailable', `${title} is slow`) },
  })
  let pausedUntilMs = 0
  return async (payer, request) => {
    if (performance.now() < pausedUntilMs) throw new MessengerError('unavailable', `${title} has asked for a pause`)
    const release = await queue.acquire(payer)
    try {
      const response = await send(title, base, request)
      if (response.status === 429) {
        const pauseMs = Math.min(maxPauseMs, Math.max(1, response.retryAfterSeconds ?? 1) * 1000)
        pausedUntilMs = performance.now() + pauseMs
      }
      return response
    } finally {
      release()
    }
  }
}

async function send(title: string, base: string, { method, path, headers, json }: MessengerRequest): Promise<MessengerResponse> {
  await using client = openGuardedClient({ allowPrivate: true, timeoutMs })
  try {
    const {
      status,
      headers: answered,
      body,
    } = await client.request({
      method,
      url: base + path,
      headers: { accept: 'application/json', ...(json && { 'content-type': 'application/json' }), ...headers },
      ...(json && { body: Buffer.from(JSON.stringify(json)) }),
      maxBytes,
    })
    const parsed = parse(await buffer(body))
    return { status, body: parsed, retryAfterSeconds: retryAfterOf(answered['retry-after'], parsed) }
  } catch (error) {
    if (!(error instanceof FetchError)) throw error
    // without its cause, which could show the address with the token
    throw new MessengerError('unavailable', `${title} does not answer (${error.reason})`)
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

/** Telegram says it in the body. */
function retryAfterOf(header: string | undefined, body: unknown): number | undefined {
  const { parameters } = (body ?? {}) as { parameters?: { retry_after?: unknown } }
  const seconds = Number(header ?? parameters?.retry_after)
  return Number.isFinite(seconds) ? seconds : undefined
}
