import { randomUUID } from 'node:crypto'
import { type DoublePayment, type PaymentDouble, startProvider } from './provider-server.ts'

const shopId = '123456'
const secretKey = 'test_Fh8hUAVVBGUGbjmlzba6TB0iyUbos_lueTHE-axOwM0'

const decimal = (minor: number) => (minor / 100).toFixed(2)
const statuses = { open: 'pending', paid: 'succeeded', expired: 'canceled', refunded: 'succeeded' } as const

const view = ({ id, status, amount_minor, currency, metadata, sent }: DoublePayment, url?: string) => ({
  id,
  status: statuses[status],
  paid: status === 'paid' || status === 'refunded',
  amount: { value: decimal(amount_minor), currency },
  ...((status === 'paid' || status === 'refunded') && {
    refunded_amount: { value: decimal(status === 'refunded' ? amount_minor : 0), currency },
  }),
  ...(status === 'open' && {
    confirmation: { type: 'redirect', confirmation_url: `${url}/checkout/payments/v2/contract?orderId=${id}` },
  }),
  recipient: { account_id: shopId, gateway_id: '1' },
  description: sent['description'],
  created_at: new Date().toISOString(),
  refundable: status === 'paid',
  test: true,
  metadata,
})

/** YooKassa's API v3, as https://yookassa.ru/developers/api describes it, with the payments that it is asked for. */
export const startYookassa = (): Promise<PaymentDouble> =>
  startProvider({
    env: (url) => ({ PLINTH_YOOKASSA_SHOP_ID: shopId, PLINTH_YOOKASSA_SECRET_KEY: secretKey, PLINTH_YOOKASSA_API: url }),
    isAuthorized: ({ headers }) => headers.authorization === `Basic ${Buffer.from(`${shopId}:${secretKey}`).toString('base64')}`,
    findId: ({ method, path }) => (method === 'GET' ? /^\/v3\/payments\/([^/?]+)$/.exec(path)?.[1] : undefined),
    begin({ method, path, headers, body }) {
      const key = headers['idempotence-key']
      const sent = method === 'POST' && path === '/v3/payments' ? JSON.parse(body) : undefined
      const { value, currency } = sent?.amount ?? {}
      const isComplete = typeof key === 'string' && key.length <= 64 && /^\d+\.\d\d$/.test(value) && currency === 'RUB'
      if (!isComplete || sent.confirmation?.type !== 'redirect' || !sent.confirmation.return_url || sent.capture !== true)
        return undefined
      if (sent.description.length > 128) return undefined
      const amount_minor = Math.round(Number(value) * 100)
      return { key, payment: { id: randomUUID(), sent, status: 'open', amount_minor, currency, metadata: sent.metadata } }
    },
    view,
    callback(payment, event) {
      const { id, amount_minor, currency } = payment
      const amount = { value: decimal(amount_minor), currency }
      const object =
        event === 'refunded'
          ? { id: randomUUID(), payment_id: id, status: 'succeeded', amount }
          : view({ ...payment, status: event })
      const name = { paid: 'payment.succeeded', expired: 'payment.canceled', refunded: 'refund.succeeded' }[event]
      return {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ type: 'notification', event: name, object }),
      }
    },
  })
