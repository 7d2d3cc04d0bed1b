import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestOverHttps } from 'node:https'
import type { LookupFunction } from 'node:net'
import { Agent, type ClientRequest, request } from '../http.ts'
import { FetchError, translated } from './fetch-error.ts'
import { admitUrl, type LookUp, lookUpBySystem } from './fetch-target.ts'
import { isPublicAddress } from './public-address.ts'
import { trusting } from './trusted-authorities.ts'

export interface GuardedOptions {
  /** Permits private addresses, every port and plain http. */
  readonly allowPrivate: boolean
  /** Allowed ports besides 443. */
  readonly ports?: readonly number[]
  /** PEM of authorities that are trusted besides those of this machine. */
  readonly ca?: string | undefined
  /** The time limit of all requests together, including their bodies. */
  readonly timeoutMs: number
  /** How long a server may send nothing; 30 s. */
  readonly silenceMs?: number
  readonly signal?: AbortSignal | undefined
  readonly lookUp?: LookUp
  /** Replaces the check of addresses in tests, which have no public address. */
  readonly isPublic?: (address: string) => boolean
  /** How long the refusal of a name takes, or a multiple of it; 1 s. */
  readonly refusalMs?: number
}

export interface GuardedRequest {
  readonly url: string
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** The value of `Authorization`. A redirect to another origin loses it. */
  readonly authorization?: string | undefined
  /** A longer body ends with a FetchError `too_large`. */
  readonly maxBytes: number
  /** At most 3; by default redirects are not followed. Only a GET is redirected. */
  readonly maxRedirects?: number
}

export interface GuardedResponse {
  /** The URL after redirects. */
  readonly url: URL
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Ends or throws a FetchError. */
  readonly body: AsyncGenerator<Buffer, void>
}

export interface GuardedClient extends AsyncDisposable {
  /** @throws FetchError */
  request(request: GuardedRequest): Promise<GuardedResponse>
}

const maxRedirects = 3
const connectMs = 10_000
/** Servers of git send something every 5 s while they prepare an answer (`uploadpack.keepAlive`). */
const usualSilenceMs = 30_000

/**
 * Makes requests to untrusted URLs. A name is resolved once in the life of the client; it is refused like an unknown one when any of its addresses is not public,
 * and connections go to these addresses only. https on port 443, no cookies, no proxy.
 */
export function openGuardedClient(options: GuardedOptions): GuardedClient {
  const { allowPrivate, ports = [], ca, timeoutMs, silenceMs = usualSilenceMs } = options
  const { lookUp = lookUpBySystem, isPublic = isPublicAddress, refusalMs } = options
  const deadline = AbortSignal.timeout(timeoutMs)
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline
  const pins = new Map<string, Promise<readonly LookupAddress[]>>()
  const checked = new Map<string, readonly LookupAddress[]>()

  const lookup: LookupFunction = (host, { all }, callback) => {
    const [first, ...others] = checked.get(host) ?? []
    if (!first) callback(new FetchError('forbidden', `${host} was not checked`), '')
    else if (all) callback(null, [first, ...others])
    else callback(null, first.address, first.family)
  }
  const plain = new Agent({ keepAlive: true, lookup })
  const secure = new HttpsAgent({ keepAlive: true, lookup, rejectUnauthorized: true, ...trusting(ca) })

  async function send(url: URL, asked: GuardedRequest, authorization: string | undefined): Promise<IncomingMessage> {
    try {
      const addresses = await admitUrl(url, { allowPrivate, ports: [443, ...ports], pins, lookUp, isPublic, signal, refusalMs })
      checked.set(url.hostname, addresses)
      const sent = {
        method: asked.method ?? 'GET',
        signal,
        timeout: silenceMs,
        headers: { 'user-agent': 'plinth', ...asked.headers, ...(authorization !== undefined && { authorization }) },
      }
      const isSecure = url.protocol === 'https:'
      const outgoing = isSecure ? requestOverHttps(url, { ...sent, agent: secure }) : request(url, { ...sent, agent: plain })
      const answered = answerOf(outgoing, url, { connected: isSecure ? 'secureConnect' : 'connect', silenceMs })
      outgoing.end(asked.body)
      return await answered
    } catch (error) {
      throw translated(error, url, { deadline, timeoutMs, signal: options.signal })
    }
  }

  async function* bodyOf(body: IncomingMessage, url: URL, maxBytes: number): AsyncGenerator<Buffer, void> {
    let bytes = 0
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        bytes += chunk.length
        if (bytes > maxBytes) throw new FetchError('too_large', `${url.host} sent more than ${maxBytes} bytes`)
        yield chunk
      }
    } catch (error) {
      throw translated(error, url, { deadline, timeoutMs, signal: options.signal })
    }
  }

  return {
    async request(asked) {
      const allowed = (asked.method ?? 'GET') !== 'GET' ? 0 : Math.min(asked.maxRedirects ?? 0, maxRedirects)
      let url = parsed(asked.url)
      let { authorization } = asked
      for (let redirects = 0; ; redirects++) {
        const response = await send(url, asked, authorization)
        const { statusCode: status = 0, headers } = response
        const location = isRedirect(status) ? headers.location : undefined
        if (location === undefined || allowed === 0) {
          return { url, status, headers: flattened(headers), body: bodyOf(response, url, asked.maxBytes) }
        }
        response.destroy()
        if (redirects === allowed) throw new FetchError('redirect', `${url.host} redirects more than ${allowed} times`)
        const next = parsed(location, url)
        // credentials are not sent again, even when a later redirect leads back to the first origin
        if (next.origin !== url.origin) authorization = undefined
        url = next
      }
    },
    async [Symbol.asyncDispose]() {
      for (const agent of [plain, secure]) agent.destroy()
    },
  }
}

/**
 * Waits for the head of an answer, and ends the connection when it cannot be made in time, the head does not arrive as a whole, or the server
 * falls silent afterwards.
 * @param connected the event of the socket after which a request can be sent
 */
async function answerOf(
  outgoing: ClientRequest,
  { host }: URL,
  { connected, silenceMs }: { readonly connected: 'connect' | 'secureConnect'; readonly silenceMs: number },
): Promise<IncomingMessage> {
  const noAnswer = () => new FetchError('unreachable', `${host} does not answer`)
  const endAfter = (ms: number) => setTimeout(() => outgoing.destroy(noAnswer()), ms)
  let timer = endAfter(connectMs)
  const waitForHead = () => {
    clearTimeout(timer)
    timer = endAfter(silenceMs)
  }
  outgoing.once('socket', (socket) => (socket.connecting ? socket.once(connected, waitForHead) : waitForHead()))
  // after the answer, it is the body that fails
  outgoing.on('error', () => undefined)
  try {
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    outgoing.on('timeout', () => {
      // what the reader has not taken yet is no silence of the server
      if (response.readableLength === 0) response.destroy(noAnswer())
    })
    return response
  } finally {
    clearTimeout(timer)
  }
}

const isRedirect = (status: number) => [301, 302, 303, 307, 308].includes(status)

function parsed(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (!url) throw new FetchError('forbidden', base ? `${base.host} redirects to no address` : 'this is no address')
  return url
}

const flattened = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  )
