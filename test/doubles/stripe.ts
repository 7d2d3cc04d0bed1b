import { createHmac, randomBytes } from 'node:crypto'
import { type CallbackOf, type DoublePayment, type PaymentDouble, startProvider } from './provider-server.ts'

const secretKey = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc'
export const stripeWebhookSecret = 'whsec_test_secret'

const newId = (prefix: string) => prefix + randomBytes(12).toString('hex')

/** The header `Stripe-Signature` of a body. */
export function stripeSignature(body: string, { secret = stripeWebhookSecret, at = Date.now() } = {}): string {
  const time = Math.floor(at / 1000)
  const signature = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')
  return `t=${time},v1=${signature},v0=${'0'.repeat(64)}`
}

/** A signed event about an object. */
function eventOf(type: string, object: object): CallbackOf {
  const body = JSON.stringify({ id: newId('evt_'), object: 'event', type, data: { object } })
  return { headers: { 'content-type': 'application/json', 'stripe-signature': stripeSignature(body) }, body }
}

const view = ({ id, status, disputed = false, amount_minor, currency, metadata, sent }: DoublePayment, url?: string) => ({
  id,
  object: 'checkout.session',
  amount_total: amount_minor,
  currency: currency.toLowerCase(),
  metadata,
  mode: 'payment',
  status: status === 'paid' || status === 'refunded' ? 'complete' : status,
  payment_status: status === 'paid' || status === 'refunded' ? 'paid' : 'unpaid',
  client_reference_id: sent['client_reference_id'],
  payment_intent:
    status === 'paid' || status === 'refunded'
      ? { id: `pi_${id}`, status: 'succeeded', latest_charge: { id: `ch_${id}`, refunded: status === 'refunded', disputed } }
      : null,
  url: status === 'open' ? `${url}/c/pay/${id}#fid` : null,
})

/** Checkout Sessions of Stripe, as https://docs.stripe.com/api/checkout/sessions describes them. @param atAnyTime for tests with a clock of their own */
export const startStripe = ({ atAnyTime = false } = {}): Promise<PaymentDouble> =>
  startProvider({
    env: (url) => ({
      PLINTH_STRIPE_SECRET_KEY: secretKey,
      PLINTH_STRIPE_WEBHOOK_SECRET: stripeWebhookSecret,
      PLINTH_STRIPE_API: url,
    }),
    isAuthorized: ({ headers }) => headers.authorization === `Bearer ${secretKey}`,
    findId({ method, path }) {
      if (method !== 'GET' || !path.endsWith('?expand[]=payment_intent.latest_charge')) return undefined
      return /^\/v1\/checkout\/sessions\/([^/?]+)/.exec(path)?.[1]
    },
    begin({ method, path, headers, body }) {
      const sent = Object.fromEntries(new URLSearchParams(body))
      const key = headers['idempotency-key']
      const currency = sent['line_items[0][price_data][currency]'] ?? ''
      const amount_minor = Number(sent['line_items[0][price_data][unit_amount]'])
      const leftMs = Number(sent['expires_at']) * 1000 - Date.now()
      const isForm = headers['content-type'] === 'application/x-www-form-urlencoded'
      const isSession = method === 'POST' && path === '/v1/checkout/sessions' && sent['mode'] === 'payment' && isForm
      if (!isSession || typeof key !== 'string' || !/^[a-z]{3}$/.test(currency) || !(amount_minor > 0)) return undefined
      if (!sent['success_url'] || (!atAnyTime && (leftMs < 30 * 60_000 || leftMs > 24 * 3_600_000))) return undefined
      const metadata = { checkout_id: sent['metadata[checkout_id]'] ?? '', site_id: sent['metadata[site_id]'] ?? '' }
      const payment = {
        id: newId('cs_test_'),
        sent,
        status: 'open',
        amount_minor,
        currency: currency.toUpperCase(),
        metadata,
      } as const
      return { key, payment: { ...payment } }
    },
    view,
    callback(payment, event) {
      const { id, metadata } = payment
      const object =
        event === 'refunded'
          ? { id: `ch_${id}`, object: 'charge', payment_intent: `pi_${id}`, refunded: true, metadata }
          : view({ ...payment, status: event })
      const type = { paid: 'checkout.session.completed', expired: 'checkout.session.expired', refunded: 'charge.refunded' }[event]
      return eventOf(type, object)
    },
    /** https://docs.stripe.com/api/disputes/object; its metadata are its own */
    disputeCallback({ id, amount_minor, currency }, event) {
      return eventOf(`charge.dispute.${event}`, {
        id: newId('dp_'),
        object: 'dispute',
        amount: amount_minor,
        currency: currency.toLowerCase(),
        charge: `ch_${id}`,
        payment_intent: `pi_${id}`,
        metadata: {},
        reason: 'fraudulent',
        status: event === 'created' ? 'needs_response' : 'won',
      })
    },
  })
