import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CallbackOf, DoublePayment, PaymentDouble } from '../doubles/provider-server.ts'
import { startStripe } from '../doubles/stripe.ts'
import { startYookassa } from '../doubles/yookassa.ts'
import { deployFiles, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { makePaidSite, type PaidSite, type Payer, sendCallback } from './paying.ts'

const dayMs = 24 * 3_600_000
const stack = new AsyncDisposableStack()
let yookassa: PaymentDouble
let stripe: PaymentDouble
let w: World
let owner: TestProject
let site: PaidSite
beforeAll(async () => {
  yookassa = stack.use(await startYookassa())
  stripe = stack.use(await startStripe())
  w = stack.use(await world({ edge: true, env: { PLINTH_PAYMENTS_TEST: 'true', ...yookassa.env, ...stripe.env } }))
  owner = await w.project()
})
afterAll(() => stack.disposeAsync())

const price = { amount_minor: 49_900, currency: 'RUB', period_days: 30, provider: 'yookassa' }
beforeEach(async () => {
  site = await makePaidSite(w, owner, price)
})

const soon = { interval: 50 }
const newest = (double: PaymentDouble) => [...double.payments.values()].at(-1) as DoublePayment
const refreshOf = ({ headers }: { headers: Record<string, unknown> }) => String(headers.refresh)

/** Begins a payment, and waits until its page is known. */
async function begin(payer: Payer, double = yookassa): Promise<DoublePayment> {
  expect((await payer.pay()).headers.location).toBe('/__svc/payment')
  await expect.poll(async () => refreshOf(await payer.look()), soon).toContain(double.url)
  return newest(double)
}

/** Pays at the provider, and calls back. */
async function payAt(double: PaymentDouble, name: string, payment: DoublePayment): Promise<void> {
  payment.status = 'paid'
  expect((await sendCallback(w, name, double.callback(payment, 'paid'))).status).toBe(200)
}

/** Waits until no payment of an earlier test is about to be begun. */
const allBegun = () =>
  expect.poll(() => w.db.selectFrom('checkouts').select('id').where('status', '=', 'created').execute(), soon).toEqual([])

const stateOf = async (payer: Payer) => {
  const { status, paid_at } = await payer.member()
  return [status, paid_at !== null]
}

describe('M10: a visitor who pays through the provider gets in', () => {
  test.each(['yookassa', 'stripe', 'test'])('with %s', async (provider) => {
    await deployFiles(w, owner, site.id, [page('the content')])
    await site.setPrice({ ...price, provider })
    const payer = await site.payer()
    expect(await stateOf(payer)).toEqual(['pending', false])
    const paid = await payer.pay('/?from=shop')
    expect([paid.status, paid.headers.location]).toEqual([303, '/__svc/payment'])
    if (provider === 'test') {
      await expect.poll(async () => refreshOf(await payer.look()), soon).toContain('/payments/test/')
      const path = new URL(refreshOf(await payer.look()).split('url=')[1] ?? '').pathname
      expect((await w.call(`GET ${path}`)).body).toContain('Decline')
      const form = { type: 'application/x-www-form-urlencoded', bytes: Buffer.from('decision=pay') }
      const headers = { origin: w.config.urls.base }
      const { status, body } = await w.call(`POST ${path}`, { ...form, headers })
      expect([status, body]).toEqual([200, expect.stringContaining('is paid')])
    } else {
      const double = provider === 'yookassa' ? yookassa : stripe
      await expect.poll(async () => refreshOf(await payer.look()), soon).toContain(double.url)
      await payAt(double, provider, newest(double))
    }
    await expect.poll(async () => (await payer.look()).status, soon).toBe(303)
    const entered = await payer.look()
    expect(entered.headers.location).toBe('/?from=shop')
    const opened = await w.visit(site.subdomain, '/', { cookie: entered.cookie ?? '' })
    expect([opened.status, opened.body.includes('the content')]).toEqual([200, true])
  })

  test('M09: the member shows when and how much was paid, and the visit ends with the period', async () => {
    const payer = await site.payer()
    await payAt(yookassa, 'yookassa', await begin(payer))
    await expect.poll(() => stateOf(payer), soon).toEqual(['active', true])
    const member = await payer.member()
    expect(member).toMatchObject({ paid_minor: 49_900, paid_currency: 'RUB', paid_provider: 'yookassa' })
    expect(member.paid_until.getTime() - member.paid_at.getTime()).toBe(30 * dayMs)
    const visit = await site.visit(await payer.look())
    expect(visit?.until.getTime()).toBeLessThanOrEqual(member.paid_until.getTime())
  })

  test('E22: without a callback, the provider is asked when the visitor comes back', async () => {
    const payer = await site.payer()
    const payment = await begin(payer)
    payment.status = 'paid'
    const back = await payer.look('?back')
    expect(refreshOf(back)).toBe('2; url=/__svc/payment')
    await expect.poll(async () => (await payer.look()).status).toBe(303)
  })

  test('a visitor without a confirmed address is asked for it', async () => {
    const stranger = { ...(await site.payer()), proof: '' }
    expect(stranger.proof).toBe('')
    const posted = await site.post('/__svc/pay', { to: '/' })
    expect([posted.status, posted.body.includes('name="email"')]).toEqual([401, true])
    expect(await site.checkouts()).toEqual([])
  })

  test('a payment that is under way is continued at the same price, and another one is begun at another price', async () => {
    const payer = await site.payer()
    await begin(payer)
    await Promise.all([payer.pay(), payer.pay(), payer.pay('/other/')])
    expect(await site.checkouts()).toHaveLength(1)
    await site.setPrice({ ...price, amount_minor: 60_000 })
    await payer.pay()
    expect((await site.checkouts()).map(({ amount_minor }) => amount_minor)).toEqual([49_900, 60_000])
  })

  test('a declined payment says so, and can be tried again', async () => {
    const payer = await site.payer()
    const payment = await begin(payer)
    payment.status = 'expired'
    await sendCallback(w, 'yookassa', yookassa.callback(payment, 'expired'))
    await expect.poll(async () => (await payer.look()).body, soon).toContain('was not completed')
    expect((await payer.look()).status).toBe(402)
    await begin(payer)
    expect((await site.checkouts()).map(({ status }) => status)).toEqual(['expired', 'open'])
  })

  test('paying again extends from the end of the period', async () => {
    const payer = await site.payer()
    await payAt(yookassa, 'yookassa', await begin(payer))
    await expect.poll(() => stateOf(payer), soon).toEqual(['active', true])
    const { paid_until } = await payer.member()
    expect((await payer.pay()).status).toBe(303)
    await expect.poll(async () => (await site.checkouts()).at(-1).status, soon).toBe('open')
    await payAt(yookassa, 'yookassa', newest(yookassa))
    await expect.poll(async () => (await payer.member()).paid_until.getTime() - paid_until.getTime(), soon).toBe(30 * dayMs)
  })

  test('a member who is inside pays for the next period with the visit alone', async () => {
    const payer = await site.payer()
    await payAt(yookassa, 'yookassa', await begin(payer))
    await expect.poll(async () => (await payer.look()).status, soon).toBe(303)
    const { cookie = '' } = await payer.look()
    const { paid_until } = await payer.member()
    const headers = { cookie }
    const inside: Payer = { ...payer, pay: () => site.post('/__svc/pay', { to: '/' }, { headers }), look: payer.lookWith(cookie) }
    const shown = await payer.lookWith(cookie, '/__svc/pay')()
    expect([shown.status, shown.body.includes('action="/__svc/pay"')]).toEqual([402, true])
    await payAt(yookassa, 'yookassa', await begin(inside))
    expect((await inside.look('?back')).status).toBe(303)
    await expect.poll(async () => (await payer.member()).paid_until > paid_until, soon).toBe(true)
    // a member who was blocked pays no more with the old visit
    await site.changeMember(payer.email, { status: 'blocked' })
    expect((await inside.pay()).status).toBe(403)
  })

  test('E22: another price does not touch those who have paid', async () => {
    const payer = await site.payer()
    await payAt(yookassa, 'yookassa', await begin(payer))
    await expect.poll(() => stateOf(payer), soon).toEqual(['active', true])
    const before = await payer.member()
    await site.setPrice({ ...price, amount_minor: 1_000_000, period_days: null })
    expect(await payer.member()).toEqual(before)
    expect((await payer.look()).status).toBe(303)
  })
})

describe('E22: a refund', () => {
  test('blocks the member, ends the visits, and is the last word', async () => {
    await deployFiles(w, owner, site.id, [page('the content')])
    const payer = await site.payer()
    const payment = await begin(payer)
    await payAt(yookassa, 'yookassa', payment)
    await expect.poll(async () => (await payer.look()).status, soon).toBe(303)
    const { cookie = '' } = await payer.look()
    await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status).toBe(200)
    payment.status = 'refunded'
    await sendCallback(w, 'yookassa', yookassa.callback(payment, 'refunded'))
    await expect.poll(() => stateOf(payer), soon).toEqual(['blocked', false])
    await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status).toBe(401)
    // an earlier callback that arrives late
    await sendCallback(w, 'yookassa', yookassa.callback(payment, 'paid'))
    await expect.poll(async () => (await payer.look()).status, soon).toBe(403)
    expect((await site.checkouts())[0].status).toBe('refunded')
  })

  test('E43: a dispute blocks the member and ends the visits, and stays the last word when it is won', async () => {
    await deployFiles(w, owner, site.id, [page('the content')])
    await site.setPrice({ ...price, provider: 'stripe' })
    const payer = await site.payer()
    const payment = await begin(payer, stripe)
    await payAt(stripe, 'stripe', payment)
    await expect.poll(async () => (await payer.look()).status, soon).toBe(303)
    const { cookie = '' } = await payer.look()
    await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status).toBe(200)
    const call = (event: 'created' | 'closed') =>
      sendCallback(w, 'stripe', stripe.disputeCallback?.(payment, event) as CallbackOf)
    // a callback is not believed
    expect((await call('created')).status).toBe(200)
    expect(await stateOf(payer)).toEqual(['active', true])
    payment.disputed = true
    expect((await call('created')).status).toBe(200)
    await expect.poll(() => stateOf(payer), soon).toEqual(['blocked', false])
    await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status).toBe(401)
    expect((await call('closed')).status).toBe(200)
    await expect.poll(async () => (await payer.look()).status, soon).toBe(403)
    expect((await site.checkouts())[0].status).toBe('refunded')
  })

  test('E37: a dispute of a payment that is not ours is answered alike, and causes no call', async () => {
    await site.setPrice({ ...price, provider: 'stripe' })
    const payment = await begin(await site.payer(), stripe)
    const unknown = { ...payment, id: 'cs_test_unknown' }
    const answer = await sendCallback(w, 'stripe', stripe.disputeCallback?.(unknown, 'created') as CallbackOf)
    expect([answer.status, stripe.requests.filter(({ path }) => path.includes('unknown'))]).toEqual([200, []])
  })

  test('of one of two payments leaves what the other one was for', async () => {
    const payer = await site.payer()
    const first = await begin(payer)
    await payAt(yookassa, 'yookassa', first)
    await expect.poll(() => stateOf(payer), soon).toEqual(['active', true])
    const { paid_until } = await payer.member()
    await payer.pay()
    await expect.poll(async () => (await site.checkouts()).at(-1).status, soon).toBe('open')
    const second = newest(yookassa)
    await payAt(yookassa, 'yookassa', second)
    await expect.poll(async () => (await payer.member()).paid_until > paid_until, soon).toBe(true)
    second.status = 'refunded'
    await sendCallback(w, 'yookassa', yookassa.callback(second, 'refunded'))
    await expect.poll(async () => (await site.checkouts()).at(-1).status, soon).toBe('refunded')
    expect(await payer.member()).toMatchObject({ status: 'active', paid_until })
  })
})

describe('E37: a callback', () => {
  test.each([
    ['amount', (payment: DoublePayment) => ({ amount_minor: payment.amount_minor - 1 })],
    ['currency', () => ({ currency: 'KZT' })],
    ['site', (payment: DoublePayment) => ({ metadata: { ...payment.metadata, site_id: crypto.randomUUID() } })],
    ['payment', (payment: DoublePayment) => ({ metadata: { ...payment.metadata, checkout_id: crypto.randomUUID() } })],
  ])('about a payment of another %s gives no access, and tells the owner', async (_what, change) => {
    const payer = await site.payer()
    const payment = await begin(payer)
    Object.assign(payment, change(payment))
    await payAt(yookassa, 'yookassa', payment)
    await expect.poll(async () => (await site.checkouts())[0].status, soon).toBe('refused')
    expect(await stateOf(payer)).toEqual(['pending', false])
    const { body } = await w.call('GET /api/v1/notifications', { key: owner.key })
    expect(body.notifications.find((one: any) => one.site_id === site.id)).toMatchObject({
      kind: 'payment_problem',
      message: expect.stringContaining(payment.id),
    })
  })

  test('is not believed: the provider is asked', async () => {
    const payer = await site.payer()
    const payment = await begin(payer)
    const asked = yookassa.requests.length
    expect((await sendCallback(w, 'yookassa', yookassa.callback(payment, 'paid'))).status).toBe(200)
    await expect.poll(() => yookassa.requests.length, soon).toBeGreaterThan(asked)
    expect(await stateOf(payer)).toEqual(['pending', false])
  })

  test('about an unknown payment is answered alike, and causes no call', async () => {
    const known = await begin(await site.payer())
    const unknown = { ...known, id: crypto.randomUUID() }
    const answers = [known, unknown].map(async (payment) => {
      const response = await sendCallback(w, 'yookassa', yookassa.callback(payment, 'expired'))
      return [response.status, await response.text()]
    })
    const [one, other] = await Promise.all(answers)
    expect(one).toEqual(other)
    expect(yookassa.requests.filter(({ path }) => path.includes(unknown.id))).toEqual([])
  })

  test('that is not signed with the secret of Stripe is refused with 400', async () => {
    const { body } = stripe.callback(newest(yookassa), 'paid')
    const forged = { headers: { 'stripe-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}` }, body }
    expect((await sendCallback(w, 'stripe', forged)).status).toBe(400)
  })

  test('is refused with 429 when there are too many about one payment', async () => {
    const callback = yookassa.callback(await begin(await site.payer()), 'paid')
    const answers = await Promise.all(Array.from({ length: 30 }, () => sendCallback(w, 'yookassa', callback)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(10)
  })
})

describe('M11: seats of a paid site', () => {
  test('are held by payments that are under way, and freed when the provider says that they are over', async () => {
    await site.settings({ moderation: false, max_seats: 1 })
    const [first, second] = [await site.payer(), await site.payer()]
    const payment = await begin(first)
    expect((await second.pay()).body).toContain('All places are taken')
    payment.status = 'expired'
    await sendCallback(w, 'yookassa', yookassa.callback(payment, 'expired'))
    await expect.poll(async () => (await site.checkouts())[0].status, soon).toBe('expired')
    expect((await second.pay()).status).toBe(303)
  })

  test('check 73: are never exceeded by members who begin to pay at the same time', async () => {
    await site.settings({ moderation: false, max_seats: 3 })
    const payers = await Promise.all(Array.from({ length: 12 }, () => site.payer()))
    const answers = await Promise.all(payers.map((payer) => payer.pay()))
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(3)
    expect(await site.checkouts()).toHaveLength(3)
  })

  test('are held for 15 minutes without a payment; who pays later gets in, and the owner hears of one member too many', async () => {
    await site.settings({ moderation: false, max_seats: 1 })
    const [late, other] = [await site.payer(), await site.payer()]
    const payment = await begin(late)
    expect((await other.pay()).body).toContain('All places are taken')
    w.advance(15 * 60_000 + 1000)
    await payAt(yookassa, 'yookassa', await begin(other))
    await expect.poll(() => stateOf(other), soon).toEqual(['active', true])
    expect((await late.pay()).body).toContain('All places are taken')
    await payAt(yookassa, 'yookassa', payment)
    await expect.poll(() => stateOf(late), soon).toEqual(['active', true])
    const { body } = await w.call('GET /api/v1/notifications', { key: owner.key })
    const titles = body.notifications.filter((one: any) => one.site_id === site.id).map(({ title }: any) => title)
    expect(titles).toEqual(['A member has paid when all seats were taken'])
  })

  test('are not held by a network that begins many payments, nor by a mailbox', async () => {
    await site.settings({ moderation: false, max_seats: 5 })
    const strangers = await Promise.all(Array.from({ length: 5 }, () => site.payer()))
    const pay = (proof: string) => site.post('/__svc/pay', { to: '/' }, { address: '198.51.100.9', headers: { cookie: proof } })
    for (const { proof } of strangers) expect((await pay(proof)).status).toBe(303)
    const held = (await site.checkouts()).filter(({ seat_held_until }) => seat_held_until !== null)
    expect(held).toHaveLength(4)
    expect((await (await site.payer()).pay()).status).toBe(303)
  })
})

test('E36: an address begins ten payments an hour', async () => {
  const payer = await site.payer()
  for (let i = 0; i < 10; i++) expect((await payer.pay()).status).toBe(303)
  const { status, headers } = await payer.pay()
  expect([status, Number(headers['retry-after'])]).toEqual([429, expect.any(Number)])
})

test('a provider that does not accept the payment frees the seat, and the owner hears of it once an hour', async () => {
  const payer = await site.payer()
  await allBegun()
  yookassa.faults.begin.push(400)
  await payer.pay()
  await expect.poll(async () => (await payer.look()).body, soon).toContain('was not completed')
  yookassa.faults.begin.push(400)
  await payer.pay()
  await expect.poll(async () => (await site.checkouts()).map(({ status }) => status), soon).toEqual(['expired', 'expired'])
  const { body } = await w.call('GET /api/v1/notifications', { key: owner.key })
  expect(body.notifications.filter((one: any) => one.site_id === site.id)).toMatchObject([{ kind: 'payment_problem' }])
})

test('a provider that fails for a while is asked again, and begins one payment', async () => {
  const payer = await site.payer()
  await allBegun()
  const before = yookassa.payments.size
  yookassa.faults.begin.push('lost', 500, 'hang up')
  await begin(payer)
  expect(yookassa.payments.size).toBe(before + 1)
})
