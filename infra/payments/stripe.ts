import { createHmac, timingSafeEqual } from 'node:crypto'
import type { PaymentStatus } from '../../core/payments.ts'
import {
  findId,
  type Members,
  membersOf,
  PaymentError,
  type PaymentProvider,
  parseCallback,
  readId,
  readPageUrl,
} from './provider.ts'
import { openSend } from './send.ts'

export interface StripeOptions {
  readonly secretKey: string
  readonly webhookSecret: string
  /** The origin of the API. */
  readonly api: string
  readonly now: () => Date
}

/** The version of the API whose objects are read here. */
const apiVersion = '2025-05-28.basil'
/** How old a signed callback may be, as Stripe's own libraries have it. */
const toleranceMs = 300_000
/** Signatures of a callback that are compared: there are two while a secret is replaced. */
const maxSignatures = 5

/** Stripe Checkout (https://docs.stripe.com/api/checkout/sessions). */
export function stripeProvider({ secretKey, webhookSecret, api, now }: StripeOptions): PaymentProvider {
  const send = openSend('Stripe', api)
  const call = { authorization: `Bearer ${secretKey}`, headers: { 'stripe-version': apiVersion } }
  return {
    async createCheckout(payment) {
      const { metadata, idempotency_key } = payment
      const fields = new URLSearchParams({
        mode: 'payment',
        'line_items[0][quantity]': '1',
        'line_items[0][price_data][currency]': payment.currency.toLowerCase(),
        'line_items[0][price_data][unit_amount]': String(payment.amount_minor),
        'line_items[0][price_data][product_data][name]': payment.description,
        // another currency than the one that was asked for would be refused here
        'adaptive_pricing[enabled]': 'false',
        success_url: payment.return_url,
        cancel_url: payment.return_url,
        expires_at: String(Math.floor(payment.expires_at.getTime() / 1000)),
        client_reference_id: metadata.checkout_id,
      })
      for (const [name, value] of Object.entries(metadata)) {
        fields.set(`metadata[${name}]`, value)
        // charges, whose refunds are called back, inherit those of the payment
        fields.set(`payment_intent_data[metadata][${name}]`, value)
      }
      const answer = await send({
        method: 'POST',
        path: '/v1/checkout/sessions',
        ...call,
        headers: { ...call.headers, 'idempotency-key': idempotency_key },
        body: { type: 'application/x-www-form-urlencoded', text: fields.toString() },
      })
      if (!answer) throw new PaymentError('unavailable', 'Stripe answered 404')
      return { checkout_url: readPageUrl(answer.url), external_id: readId(answer.id) }
    },
    async getStatus(external_id) {
      const path = `/v1/checkout/sessions/${encodeURIComponent(external_id)}?expand[]=payment_intent.latest_charge`
      const answer = await send({ method: 'GET', path, ...call })
      return answer && statusOf(answer)
    },
    parseWebhook(headers, raw) {
      const header = headers['stripe-signature']
      if (typeof header !== 'string' || !isSigned(header, raw, webhookSecret, now())) {
        throw new PaymentError('forged', 'the callback is not signed with the secret of the webhook')
      }
      const { id, object, metadata, payment_intent } = membersOf(membersOf(parseCallback(raw).data).object)
      const external_id = object === 'checkout.session' ? findId(id) : undefined
      if (external_id !== undefined) return { external_id }
      const checkout_id = findId(membersOf(metadata).checkout_id)
      if (checkout_id !== undefined) return { checkout_id }
      // disputes do not inherit the metadata of their payment
      const payment_id = findId(payment_intent)
      return payment_id === undefined ? {} : { payment_id }
    },
  }
}

/** Whether a header `t=<seconds>,v1=<hex>` signs the bytes (https://docs.stripe.com/webhooks/signature). */
function isSigned(header: string, raw: Buffer, secret: string, now: Date): boolean {
  const parts = header
    .slice(0, 2000)
    .split(',')
    .map((part) => part.trim().split('='))
  const time = parts.find(([name]) => name === 't')?.[1] ?? ''
  if (!/^\d{1,12}$/.test(time) || Math.abs(Number(time) * 1000 - now.getTime()) > toleranceMs) return false
  const expected = createHmac('sha256', secret).update(`${time}.`).update(raw).digest()
  const given = parts.filter(([name]) => name === 'v1').slice(0, maxSignatures)
  return given.some(([, hex = '']) => {
    const bytes = Buffer.from(hex, 'hex')
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  })
}

function statusOf(session: Members): PaymentStatus {
  const { amount_total, currency, metadata, payment_intent } = session
  if (typeof amount_total !== 'number' || typeof currency !== 'string') {
    throw new PaymentError('unavailable', 'Stripe did not describe the payment')
  }
  const { checkout_id, site_id } = membersOf(metadata)
  return {
    status: stateOf(session),
    payment_id: findId(membersOf(payment_intent).id),
    amount_minor: amount_total,
    currency: currency.toUpperCase(),
    checkout_id: findId(checkout_id),
    site_id: findId(site_id),
  }
}

/** @throws PaymentError `unavailable` for a state that is not known */
function stateOf({ status, payment_status, payment_intent }: Members): PaymentStatus['status'] {
  const intent = membersOf(payment_intent)
  if (payment_status === 'paid') {
    const { refunded, disputed } = membersOf(intent.latest_charge)
    // a charge stays disputed when the dispute is won
    return refunded === true || disputed === true ? 'refunded' : 'paid'
  }
  if (status === 'open') return 'open'
  if (status === 'expired') return 'expired'
  // a bank transfer, for example, is under way, or has failed in the end
  if (status === 'complete')
    return intent.status === 'requires_payment_method' || intent.status === 'canceled' ? 'expired' : 'open'
  throw new PaymentError('unavailable', 'Stripe names a state of the payment that is not known')
}
