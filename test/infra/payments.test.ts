import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PaymentProvider } from '../../infra/payments/provider.ts'
import { stripeProvider } from '../../infra/payments/stripe.ts'
import { yookassaProvider } from '../../infra/payments/yookassa.ts'
import type { DoublePayment, PaymentDouble } from '../doubles/provider-server.ts'
import { startStripe, stripeSignature, stripeWebhookSecret } from '../doubles/stripe.ts'
import { startYookassa } from '../doubles/yookassa.ts'

let now = Date.now()
const doubles: Record<string, PaymentDouble> = {}
beforeAll(async () => {
  Object.assign(doubles, { yookassa: await startYookassa(), stripe: await startStripe() })
})
afterAll(async () => {
  for (const double of Object.values(doubles)) await double[Symbol.asyncDispose]()
})
beforeEach(() => {
  now = Date.now()
})

const open: Record<string, (double: PaymentDouble, key?: string) => PaymentProvider> = {
  yookassa: ({ url, env }, secretKey = env['PLINTH_YOOKASSA_SECRET_KEY'] ?? '') =>
    yookassaProvider({ shopId: env['PLINTH_YOOKASSA_SHOP_ID'] ?? '', secretKey, api: url }),
  stripe: ({ url, env }, secretKey = env['PLINTH_STRIPE_SECRET_KEY'] ?? '') =>
    stripeProvider({ secretKey, webhookSecret: stripeWebhookSecret, api: url, now: () => new Date(now) }),
}

const newPayment = () => ({
  amount_minor: 49_905,
  currency: 'RUB',
  description: 'Access to notes.example.com',
  return_url: 'https://notes.example.com/__svc/payment?back',
  metadata: { checkout_id: randomUUID(), site_id: randomUUID() },
  idempotency_key: randomUUID(),
  expires_at: new Date(now + 3_600_000),
})

describe.each(['yookassa', 'stripe'])('E22: %s', (name) => {
  let double: PaymentDouble
  let provider: PaymentProvider
  beforeEach(() => {
    double = doubles[name] as PaymentDouble
    provider = (open[name] as (typeof open)[string])(double)
    double.requests.length = 0
  })
  const begin = async () => {
    const payment = newPayment()
    const begun = await provider.createCheckout(payment)
    return { payment, begun, at: double.payments.get(begun.external_id) as DoublePayment }
  }

  test('begins a payment of the exact amount, which leads back to the site', async () => {
    const { payment, begun, at } = await begin()
    expect(begun.checkout_url).toContain(double.url)
    expect(at).toMatchObject({ amount_minor: 49_905, currency: 'RUB', metadata: payment.metadata })
    expect(JSON.stringify(at.sent)).toContain(payment.return_url)
  })

  test('begins one payment, however often the call is repeated', async () => {
    const { payment, begun } = await begin()
    const before = double.payments.size
    expect((await provider.createCheckout(payment)).external_id).toBe(begun.external_id)
    expect(double.payments.size).toBe(before)
  })

  test('begins one payment when the answer is lost', async () => {
    const payment = newPayment()
    const before = double.payments.size
    double.faults.begin.push('lost')
    await expect(provider.createCheckout(payment)).rejects.toMatchObject({ kind: 'unavailable' })
    await provider.createCheckout(payment)
    expect(double.payments.size).toBe(before + 1)
  })

  test.each(['open', 'paid', 'expired', 'refunded'] as const)('tells that a payment is %s', async (status) => {
    const { payment, begun, at } = await begin()
    at.status = status
    expect(await provider.getStatus(begun.external_id)).toMatchObject({
      status,
      amount_minor: 49_905,
      currency: 'RUB',
      ...payment.metadata,
    })
  })

  test('knows nothing of another payment', async () => {
    expect(await provider.getStatus('cs_nobody')).toBeUndefined()
  })

  test.each([401, 403, 429, 500, 502, 'hang up'] as const)('a failure (%s) is one that may pass', async (fault) => {
    double.faults.ask.push(fault)
    await expect(provider.getStatus('cs_nobody')).rejects.toMatchObject({ kind: 'unavailable' })
  })

  test('says what the provider does not accept', async () => {
    const refused = provider.createCheckout({ ...newPayment(), return_url: '' })
    await expect(refused).rejects.toMatchObject({ kind: 'refused', message: expect.stringContaining('(a field is missing)') })
  })

  test('no error contains the key', async () => {
    const secret = 'sk_live_very_secret'
    const other = (open[name] as (typeof open)[string])(double, secret)
    const error: Error = (await other.getStatus('cs_1').catch((error: Error) => error)) as Error
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain(secret)
  })

  test.each(['paid', 'expired', 'refunded'] as const)('a callback that a payment is %s names it', async (event) => {
    const { payment, begun, at } = await begin()
    const { headers, body } = double.callback(at, event)
    const named = provider.parseWebhook(headers, Buffer.from(body))
    const byCharge = name === 'stripe' && event === 'refunded'
    expect(named).toEqual(byCharge ? { checkout_id: payment.metadata.checkout_id } : { external_id: begun.external_id })
  })
})

describe('E43: a dispute at Stripe', () => {
  const stripe = () => doubles['stripe'] as PaymentDouble
  const provider = () => (open['stripe'] as (typeof open)[string])(stripe())
  const beginPaid = async () => {
    const { external_id } = await provider().createCheckout(newPayment())
    const payment = stripe().payments.get(external_id) as DoublePayment
    payment.status = 'paid'
    return { external_id, payment }
  }

  test('takes the payment back, also when it is won', async () => {
    const { external_id, payment } = await beginPaid()
    expect(await provider().getStatus(external_id)).toMatchObject({ status: 'paid' })
    payment.disputed = true
    expect(await provider().getStatus(external_id)).toMatchObject({ status: 'refunded' })
  })

  test.each(['created', 'closed'] as const)('is named by its payment when it is %s', async (event) => {
    const { external_id, payment } = await beginPaid()
    const callback = stripe().disputeCallback?.(payment, event)
    const named = provider().parseWebhook(callback?.headers ?? {}, Buffer.from(callback?.body ?? ''))
    const { payment_id } = (await provider().getStatus(external_id)) ?? {}
    expect([named, payment_id]).toEqual([{ payment_id }, expect.stringMatching(/^pi_/)])
  })

  test('of a payment that is not begun has no payment of ours', async () => {
    const body = JSON.stringify({ data: { object: { object: 'dispute', id: 'dp_1', payment_intent: null, metadata: {} } } })
    expect(provider().parseWebhook({ 'stripe-signature': stripeSignature(body) }, Buffer.from(body))).toEqual({})
  })
})

describe('E22: a signature of Stripe', () => {
  const provider = () => (open['stripe'] as (typeof open)[string])(doubles['stripe'] as PaymentDouble)
  const body = JSON.stringify({ data: { object: { object: 'checkout.session', id: 'cs_1' } } })
  const parse = (signature: string | undefined, raw = body) =>
    provider().parseWebhook(signature === undefined ? {} : { 'stripe-signature': signature }, Buffer.from(raw))

  test('is accepted beside those of another secret', () => {
    const [time, right] = stripeSignature(body).split(',')
    expect(parse(`${time},v1=${'0'.repeat(64)},${right}`)).toEqual({ external_id: 'cs_1' })
  })

  test.each([
    ['is missing', undefined, body],
    ['is empty', '', body],
    ['is of another secret', stripeSignature(body, { secret: 'whsec_other' }), body],
    ['is of another body', stripeSignature(body), `${body} `],
    ['is too old', stripeSignature(body, { at: Date.now() - 301_000 }), body],
    ['is of the future', stripeSignature(body, { at: Date.now() + 3_600_000 }), body],
    ['has another scheme', stripeSignature(body).replace('v1=', 'v2='), body],
    ['has no time', stripeSignature(body).replace(/^t=\d+/, 't='), body],
    ['is cut', stripeSignature(body).slice(0, 60), body],
  ])('is refused when it %s', (_how, signature, raw) => {
    expect(() => parse(signature, raw)).toThrow('not signed')
  })
})

test.each([
  '',
  'null',
  '[]',
  '{}',
  '{"object":null}',
  '{"event":"payment.succeeded","object":{"id":"../../refunds"}}',
  '{"object":{"id":7}}',
])('E37: a callback %s names no payment, or is refused', (body) => {
  const provider = (open['yookassa'] as (typeof open)[string])(doubles['yookassa'] as PaymentDouble)
  const read = () => provider.parseWebhook({}, Buffer.from(body))
  if (body === '') expect(read).toThrow('not JSON')
  else expect(read()).toEqual({})
})
