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

export interface YookassaOptions {
  readonly shopId: string
  readonly secretKey: string
  /** The origin of the API. */
  readonly api: string
}

/** YooKassa, API v3 (https://yookassa.ru/developers/api). Its callbacks are not signed. */
export function yookassaProvider({ shopId, secretKey, api }: YookassaOptions): PaymentProvider {
  const send = openSend('YooKassa', api)
  const authorization = `Basic ${Buffer.from(`${shopId}:${secretKey}`).toString('base64')}`
  return {
    async createCheckout({ amount_minor, currency, description, return_url, metadata, idempotency_key }) {
      const payment = {
        amount: { value: decimal(amount_minor), currency },
        capture: true,
        confirmation: { type: 'redirect', return_url },
        description,
        metadata,
      }
      const answer = await send({
        method: 'POST',
        path: '/v3/payments',
        authorization,
        headers: { 'idempotence-key': idempotency_key },
        body: { type: 'application/json', text: JSON.stringify(payment) },
      })
      if (!answer) throw new PaymentError('unavailable', 'YooKassa answered 404')
      return {
        checkout_url: readPageUrl(membersOf(answer.confirmation).confirmation_url),
        external_id: readId(answer.id),
      }
    },
    async getStatus(external_id) {
      const answer = await send({ method: 'GET', path: `/v3/payments/${encodeURIComponent(external_id)}`, authorization })
      return answer && statusOf(answer)
    },
    parseWebhook(_headers, raw) {
      const { event, object } = parseCallback(raw)
      const { id, payment_id } = membersOf(object)
      // the object of `refund.succeeded` is the refund
      const external_id = findId(typeof event === 'string' && event.startsWith('refund.') ? payment_id : id)
      return external_id === undefined ? {} : { external_id }
    },
  }
}

/** Roubles, as a decimal number with two digits. */
const decimal = (amountMinor: number) => `${Math.floor(amountMinor / 100)}.${String(amountMinor % 100).padStart(2, '0')}`

/** @throws PaymentError `unavailable` for anything but an amount of money */
function minor(value: unknown): number {
  const [, whole, digits] = (typeof value === 'string' && /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(value)) || []
  if (whole === undefined) throw new PaymentError('unavailable', 'YooKassa names an amount in a way that is not known')
  return Number(whole) * 100 + Number((digits ?? '').padEnd(2, '0'))
}

function statusOf({ status, amount, refunded_amount, metadata }: Members): PaymentStatus {
  const { value, currency } = membersOf(amount)
  const amount_minor = minor(value)
  const { checkout_id, site_id } = membersOf(metadata)
  const refunded = membersOf(refunded_amount).value
  const isRefunded = status === 'succeeded' && refunded !== undefined && minor(refunded) >= amount_minor
  return {
    status: isRefunded ? 'refunded' : stateOf(status),
    amount_minor,
    currency: String(currency).toUpperCase(),
    checkout_id: findId(checkout_id),
    site_id: findId(site_id),
  }
}

/** @throws PaymentError `unavailable` for a state that is not known */
function stateOf(status: unknown): PaymentStatus['status'] {
  if (status === 'succeeded') return 'paid'
  if (status === 'canceled') return 'expired'
  // the money of `waiting_for_capture` is not ours yet
  if (status === 'pending' || status === 'waiting_for_capture') return 'open'
  throw new PaymentError('unavailable', 'YooKassa names a state of the payment that is not known')
}
