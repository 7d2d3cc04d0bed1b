import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** A payment as a provider has it. */
export interface DoublePayment {
  readonly id: string
  /** As the platform sent it. */
  readonly sent: Readonly<Record<string, any>>
  status: 'open' | 'paid' | 'expired' | 'refunded'
  /** Whether the payer has disputed it, which stays so however that ends. */
  disputed?: boolean
  amount_minor: number
  currency: string
  metadata: Record<string, string>
}

export interface ProviderRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface CallbackOf {
  readonly headers: Record<string, string>
  readonly body: string
}

/** A status, or `hang up`, or `lost` for an answer that gets lost after the work is done. */
type Fault = number | 'hang up' | 'lost'

/** A payment provider on a port of its own. */
export interface PaymentDouble extends AsyncDisposable {
  readonly url: string
  /** The settings with which the platform uses it. */
  readonly env: Readonly<Record<string, string>>
  readonly payments: Map<string, DoublePayment>
  readonly requests: ProviderRequest[]
  /** How the next requests are answered that begin a payment, or ask for one. */
  readonly faults: { readonly begin: Fault[]; readonly ask: Fault[] }
  /** A callback about a payment as the provider sends it. */
  callback(payment: DoublePayment, event: 'paid' | 'expired' | 'refunded'): CallbackOf
  /** A callback that the payer disputes a payment, or how that ended; for providers that have such. */
  readonly disputeCallback?: ((payment: DoublePayment, event: 'created' | 'closed') => CallbackOf) | undefined
}

interface Behaviour {
  readonly env: (url: string) => Readonly<Record<string, string>>
  readonly isAuthorized: (request: ProviderRequest) => boolean
  /** Makes the payment of a request, which is repeated with the same key. */
  readonly begin: (request: ProviderRequest) => { readonly key: string; readonly payment: DoublePayment } | undefined
  readonly findId: (request: ProviderRequest) => string | undefined
  readonly view: (payment: DoublePayment, url: string) => object
  readonly callback: PaymentDouble['callback']
  readonly disputeCallback?: PaymentDouble['disputeCallback']
}

export async function startProvider({ env, isAuthorized, begin, findId, view, ...callbacks }: Behaviour): Promise<PaymentDouble> {
  const payments = new Map<string, DoublePayment>()
  const byKey = new Map<string, { readonly body: string; readonly payment: DoublePayment }>()
  const requests: ProviderRequest[] = []
  const faults: PaymentDouble['faults'] = { begin: [], ask: [] }

  function handle(request: ProviderRequest): { status: number; body: object } {
    if (!isAuthorized(request)) return { status: 401, body: { error: { message: 'the key is not known' } } }
    const found = findId(request)
    if (found !== undefined) {
      const payment = payments.get(found)
      return payment ? { status: 200, body: view(payment, url) } : { status: 404, body: {} }
    }
    const begun = begin(request)
    if (!begun) return { status: 400, body: { error: { message: 'a field is missing' }, description: 'a field is missing' } }
    const known = byKey.get(begun.key)
    if (known && known.body !== request.body) return { status: 400, body: { error: { message: 'other parameters' } } }
    if (!known) {
      byKey.set(begun.key, { body: request.body, payment: begun.payment })
      payments.set(begun.payment.id, begun.payment)
    }
    return { status: 200, body: view(known?.payment ?? begun.payment, url) }
  }

  async function answer(incoming: IncomingMessage, res: ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = incoming
    const request = { method, path, headers, body: await text(incoming) }
    requests.push(request)
    const fault = (method === 'POST' ? faults.begin : faults.ask).shift()
    if (fault === 'hang up') return void incoming.socket.destroy()
    const { status, body } = typeof fault === 'number' ? { status: fault, body: {} } : handle(request)
    if (fault === 'lost') return void incoming.socket.destroy()
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  const server = createServer((incoming, res) => void answer(incoming, res))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    env: env(url),
    payments,
    requests,
    faults,
    ...callbacks,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
