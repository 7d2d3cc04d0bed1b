export interface ForgeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly body?: string
  readonly timeoutMs: number
}

export interface ForgeResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: string
}

/**
 * Sends one request, to public addresses only, and follows no redirect: the token must not reach another host. Any error
 * except a ForgeError counts as `unavailable`.
 */
export type Send = (request: ForgeRequest) => Promise<ForgeResponse>

/**
 * - `gone`: the repository or pull request does not exist, or the token may not see it
 * - `denied`: the token lacks a right, which the message names
 * - `refused`: the forge does not accept it, and never will
 * - `rate_limited`, `unavailable`: a retry may succeed
 */
export type ForgeErrorKind = 'gone' | 'denied' | 'refused' | 'rate_limited' | 'unavailable'

/** A failure at a forge. The message is for the owner of the site, and contains no secret. */
export class ForgeError extends Error {
  override readonly name = 'ForgeError'
  readonly kind: ForgeErrorKind
  /** How long to wait, when `rate_limited`. */
  readonly retryAfterMs: number | undefined

  constructor(kind: ForgeErrorKind, message: string, options: { retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.kind = kind
    this.retryAfterMs = options.retryAfterMs
  }

  get isRetryable(): boolean {
    return this.kind === 'rate_limited' || this.kind === 'unavailable'
  }
}

const timeoutMs = 10_000

export interface ApiOptions {
  /** The base URL without a trailing slash. */
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  /** Texts that no message may contain. */
  readonly secrets: readonly string[]
  readonly send: Send
  readonly now: () => Date
}

export interface ApiCall {
  readonly method?: ForgeRequest['method']
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** The right that the token needs. */
  readonly needs: string
}

/** Calls an API and returns the parsed response. @throws ForgeError */
export type Api = (call: ApiCall) => Promise<unknown>

export function openApi({ base, headers, secrets, send, now }: ApiOptions): Api {
  return async ({ method = 'GET', path, body, needs }) => {
    const request = {
      method,
      url: base + path,
      headers: {
        accept: 'application/json',
        'user-agent': 'plinth',
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
      timeoutMs,
    }
    const response = await send(request).catch((cause: unknown) => {
      if (cause instanceof ForgeError) throw cause
      throw new ForgeError('unavailable', `${new URL(base).host} did not answer`, { cause })
    })
    if (response.status >= 200 && response.status < 300) return parse(response.body)
    const said = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), saidBy(response.body))
    throw errorOf(response, { host: new URL(base).host, said, needs, now: now() })
  }
}

function parse(body: string): unknown {
  if (body === '') return undefined
  try {
    return JSON.parse(body)
  } catch (cause) {
    throw new ForgeError('unavailable', 'the forge did not answer with JSON: does a proxy stand before it?', { cause })
  }
}

/** Finds the message in the error of any forge, as one short line. */
function saidBy(body: string): string {
  const message = messageIn(body)
  const text = typeof message === 'string' ? message : JSON.stringify(message ?? '')
  return text.replaceAll(/\s+/g, ' ').slice(0, 200)
}

function messageIn(body: string): unknown {
  try {
    const { message, error } = JSON.parse(body) as { message?: unknown; error?: { message?: unknown } | string }
    return message ?? (typeof error === 'object' ? error.message : error)
  } catch {
    return undefined
  }
}

interface Failure {
  readonly host: string
  readonly said: string
  readonly needs: string
  readonly now: Date
}

function errorOf(response: ForgeResponse, { host, said, needs, now }: Failure): ForgeError {
  const { status } = response
  const saying = said === '' || said === '""' ? '' : ` (${said})`
  if (isRateLimit(response)) {
    const retryAfterMs = pauseOf(response, now)
    return new ForgeError('rate_limited', `${host} takes no more requests for ${Math.ceil(retryAfterMs / 1000)} s`, {
      retryAfterMs,
    })
  }
  if (status === 401)
    return new ForgeError('denied', `${host} does not know the token${saying}: it may have expired; set another one`)
  if (status === 403) return new ForgeError('denied', `the token may not do this at ${host}${saying}: it needs ${needs}`)
  if (status === 404 || status === 410)
    return new ForgeError('gone', `${host} does not have it${saying}, or the token may not see it: it needs ${needs}`)
  if (status >= 300 && status < 400)
    return new ForgeError('gone', `the repository has moved at ${host}: connect the site to its new address`)
  if (status >= 500 || status === 408 || status === 425)
    return new ForgeError('unavailable', `${host} answered ${status}${saying}`)
  return new ForgeError('refused', `${host} answered ${status}${saying}`)
}

const headerIn = ({ headers }: ForgeResponse, name: string) => {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}

/** Whether the response is a rate limit; GitHub also uses 403 for it. */
const isRateLimit = (response: ForgeResponse) =>
  response.status === 429 ||
  (response.status === 403 &&
    (headerIn(response, 'retry-after') !== undefined || headerIn(response, 'x-ratelimit-remaining') === '0'))

const [minPauseMs, usualPauseMs, maxPauseMs] = [1000, 60_000, 3_600_000]

function pauseOf(response: ForgeResponse, now: Date): number {
  const seconds = Number(headerIn(response, 'retry-after'))
  const reset = Number(headerIn(response, 'x-ratelimit-reset') ?? headerIn(response, 'ratelimit-reset'))
  const wanted = seconds > 0 ? seconds * 1000 : reset > 0 ? reset * 1000 - now.getTime() : usualPauseMs
  return Math.min(Math.max(wanted, minPauseMs), maxPauseMs)
}
