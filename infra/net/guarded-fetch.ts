import type { LookupAddress } from 'node:dns'
import { Agent, type Dispatcher, request } from 'undici'
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
 * Makes requests to untrusted URLs. A name is resolved once in the life of the client; it is refused when any of its addresses is not public,
 * and connections go to these addresses only. https on port 443, no cookies, no proxy.
 */
export function openGuardedClient(options: GuardedOptions): GuardedClient {
  const { allowPrivate, ports = [], ca, timeoutMs, silenceMs = usualSilenceMs } = options
  const { lookUp = lookUpBySystem, isPublic = isPublicAddress } = options
  const deadline = AbortSignal.timeout(timeoutMs)
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline
  const pins = new Map<string, Promise<readonly LookupAddress[]>>()
  const checked = new Map<string, readonly LookupAddress[]>()

  const agent = new Agent({
    allowH2: false,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    connect: {
      timeout: connectMs,
      rejectUnauthorized: true,
      ...trusting(ca),
      lookup(host, { all }, callback) {
        const [first, ...others] = checked.get(host) ?? []
        if (!first) callback(new FetchError('forbidden', `${host} was not checked`), '')
        else if (all) callback(null, [first, ...others])
        else callback(null, first.address, first.family)
      },
    },
  })

  async function send(url: URL, asked: GuardedRequest, authorization: string | undefined): Promise<Dispatcher.ResponseData> {
    try {
      const addresses = await admitUrl(url, { allowPrivate, ports: [443, ...ports], pins, lookUp, isPublic, signal })
      checked.set(url.hostname, addresses)
      return await request(url, {
        method: asked.method ?? 'GET',
        dispatcher: agent,
        signal,
        headers: { 'user-agent': 'plinth', ...asked.headers, ...(authorization !== undefined && { authorization }) },
        ...(asked.body && { body: asked.body }),
      })
    } catch (error) {
      throw translated(error, url, { deadline, timeoutMs, signal: options.signal })
    }
  }

  async function* bodyOf({ body }: Dispatcher.ResponseData, url: URL, maxBytes: number): AsyncGenerator<Buffer, void> {
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
        const headers = flattened(response.headers)
        const location = isRedirect(response.statusCode) ? headers.location : undefined
        if (location === undefined || allowed === 0) {
          return { url, status: response.statusCode, headers, body: bodyOf(response, url, asked.maxBytes) }
        }
        response.body.on('error', () => undefined).destroy()
        if (redirects === allowed) throw new FetchError('redirect', `${url.host} redirects more than ${allowed} times`)
        const next = parsed(location, url)
        // credentials are not sent again, even when a later redirect leads back to the first origin
        if (next.origin !== url.origin) authorization = undefined
        url = next
      }
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

const isRedirect = (status: number) => [301, 302, 303, 307, 308].includes(status)

function parsed(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (!url) throw new FetchError('forbidden', base ? `${base.host} redirects to no address` : 'this is no address')
  return url
}

const flattened = (headers: Dispatcher.ResponseData['headers']) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  )
