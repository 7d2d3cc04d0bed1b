import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listStalledCheckouts } from '../../services/payments/stalled.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { makePaidSite, type PaidSite, sendCallback } from '../api/paying.ts'
import type { DoublePayment, PaymentDouble } from '../doubles/provider-server.ts'
import { startYookassa } from '../doubles/yookassa.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openTemporalClient, showWorkflow } from './temporal-client.ts'

const soon = { interval: 50 }
const dayMs = 24 * 3_600_000
const stack = new AsyncDisposableStack()
let yookassa: PaymentDouble
let w: World
let owner: TestProject
let temporal: Client
let site: PaidSite
beforeAll(async () => {
  yookassa = stack.use(await startYookassa())
  w = stack.use(await world({ env: yookassa.env, ownTemporal: true }))
  owner = await w.project()
  temporal = await openTemporalClient(w, stack)
  site = await makePaidSite(w, owner, { amount_minor: 49_900, currency: 'RUB', period_days: 365, provider: 'yookassa' })
})
afterAll(() => stack.disposeAsync())

/** A payment whose page is known, of a new member. */
async function begin() {
  const payer = await site.payer()
  await payer.pay()
  const rowOf = async () => (await site.checkouts()).at(-1)
  await expect.poll(async () => (await rowOf()).status, soon).toBe('open')
  const { id, external_id } = await rowOf()
  const row = async () => (await site.checkouts()).find((one) => one.id === id)
  return { payer, id: id as string, payment: yookassa.payments.get(external_id) as DoublePayment, row }
}

const change = async (payment: DoublePayment, status: 'paid' | 'expired' | 'refunded') => {
  payment.status = status
  expect((await sendCallback(w, 'yookassa', yookassa.callback(payment, status))).status).toBe(200)
}
const handleOf = (id: string) => temporal.workflow.getHandle(`checkout:${id}`)

const endings = [
  ['paid', async (payment: DoublePayment) => change(payment, 'paid')],
  ['expired', async (payment: DoublePayment) => change(payment, 'expired')],
  [
    'refused',
    async (payment: DoublePayment) => {
      payment.amount_minor = 100
      await change(payment, 'paid')
    },
  ],
] as const

describe('the workflow of a payment', () => {
  test.each(endings)('E22: ends as %s, and its history replays', async (name, act) => {
    const { id, payment, payer } = await begin()
    await act(payment)
    expect(await handleOf(id).result()).toBe(name)
    const { memo } = await handleOf(id).describe()
    expect(memo?.['outcome']).toEqual(expect.any(String))
    await replay(await handleOf(id).fetchHistory())
    const shown = showWorkflow(w.temporal, `checkout:${id}`)
    expect([shown.includes(payer.email), shown.includes(payment.id)]).toEqual([false, false])
    record(w.temporal, `checkout:${id}`, `checkout-${name}`)
  })

  test('E22: runs again when a refund is called back, and ends as refunded', async () => {
    const { id, payment, row } = await begin()
    await change(payment, 'paid')
    expect(await handleOf(id).result()).toBe('paid')
    await change(payment, 'refunded')
    await expect.poll(async () => (await row()).status, soon).toBe('refunded')
    expect(await handleOf(id).result()).toBe('refunded')
    await replay(await handleOf(id).fetchHistory())
    record(w.temporal, `checkout:${id}`, 'checkout-refunded')
  })

  test('ends when its site is gone', async () => {
    const { id } = await begin()
    await w.db.deleteFrom('checkouts').where('id', '=', id).execute()
    await w.workflows.signal({ workflow_id: `checkout:${id}`, signal: 'changed' })
    expect(await handleOf(id).result()).toBe('gone')
    await replay(await handleOf(id).fetchHistory())
    record(w.temporal, `checkout:${id}`, 'checkout-gone')
  })
})

describeHistories(/^checkout-.*\.json$/, [
  'checkout-expired',
  'checkout-gone',
  'checkout-paid',
  'checkout-refunded',
  'checkout-refused',
])

const options = { stalledAfterMs: 0, dueWithinMs: 60_000, checkIntervalMs: 10_000, retryPauseMs: 60_000 }

test('E22: a refund whose callback was lost is found the next day', async () => {
  const { id, payment, payer, row } = await begin()
  await change(payment, 'paid')
  expect(await handleOf(id).result()).toBe('paid')
  const { next_look_at, paid_at } = await row()
  expect(Math.abs(next_look_at - paid_at - dayMs)).toBeLessThan(60_000)
  payment.status = 'refunded'
  const listed = async (at: Date) =>
    (await listStalledCheckouts(w.db, at, { limit: 1000, afterId: undefined })).map((one) => one.checkout_id)
  expect(await listed(new Date())).not.toContain(id)
  expect(await listed(new Date(Date.now() + dayMs + 60_000))).toContain(id)
  expect(await reconcile(w, w.workflows, new Date(Date.now() + dayMs + 60_000), options)).toContain(`checkout:${id}`)
  await expect.poll(async () => (await row()).status, soon).toBe('refunded')
  expect(await payer.member()).toMatchObject({ status: 'blocked', paid_at: null })
})

test('E22: without any callback, the payment is found by asking', async () => {
  const { payment, payer } = await begin()
  payment.status = 'paid'
  await expect.poll(async () => (await payer.member()).paid_at, soon).not.toBe(null)
})

test('a payment that Temporal has lost goes on after the reconciler has found it', async () => {
  const { id, payment, row } = await begin()
  await w.killTemporal()
  await w.startTemporal({ forget: true })
  payment.status = 'paid'
  await w.db
    .updateTable('checkouts')
    .set({ next_look_at: new Date(Date.now() - 60_000) })
    .where('id', '=', id)
    .execute()
  await expect
    .poll(
      async () => (await reconcile(w, w.workflows, new Date(), options).catch((): string[] => [])).includes(`checkout:${id}`),
      soon,
    )
    .toBe(true)
  await expect.poll(async () => (await row()).status, soon).toBe('paid')
})
