import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkoutProviderNames } from '../../core/payments.ts'
import { loadConfig } from '../../infra/config.ts'
import { createPreviewTokens } from '../../infra/crypto/preview-tokens.ts'
import { openKeyring } from '../../infra/crypto/seal.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { createLogger } from '../../infra/log.ts'
import { takeCallback } from '../../services/payments/callbacks.ts'
import { findCheckout } from '../../services/payments/checkouts.ts'
import { lookAtCheckout } from '../../services/payments/look.ts'
import { providerOf } from '../../services/payments/providers.ts'
import { settle } from '../../services/payments/settle.ts'
import type { Services } from '../../services/services.ts'
import { createDatabase } from '../database.ts'
import type { DoublePayment, PaymentDouble } from '../doubles/provider-server.ts'
import { startStripe } from '../doubles/stripe.ts'
import { startYookassa } from '../doubles/yookassa.ts'
import { randomName } from '../make.ts'
import { secretKey } from '../world.ts'

// Members begin to pay, pay, are refunded or let payments expire, while callbacks arrive real, repeated, late, forged or never, and answers of the
// provider arrive in another order. A model that knows only what was asked and answered says who has access. SEED repeats a run.

const sequences = 500
const stepsOfSequence = 14
const atOnce = 6
const dayMs = 24 * 3_600_000
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

const stack = new AsyncDisposableStack()
const doubles: Record<string, PaymentDouble> = {}
let base: Services
beforeAll(async () => {
  const stripe = await startStripe({ atAnyTime: true })
  Object.assign(doubles, { yookassa: stack.use(await startYookassa()), stripe: stack.use(stripe) })
  const env = Object.assign({}, ...Object.values(doubles).map((double) => double.env))
  const config = loadConfig({ ...env, PLINTH_SECRET_KEY: secretKey.toString('base64') })
  const { db } = stack.use(openDatabase(stack.use(await createDatabase()).url))
  base = {
    config,
    db,
    clock: () => new Date(),
    relay: { wake: () => undefined },
    freshness: { untilServed: () => Promise.resolve() },
    log: createLogger('test', 'silent'),
    keyring: openKeyring(secretKey),
    previewTokens: createPreviewTokens(secretKey),
    cas: undefined as never,
    buildLogs: undefined as never,
  }
})
afterAll(() => stack.disposeAsync())

/** Mulberry32. */
function randomOf(state: number): () => number {
  let a = state
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** What the model knows of a payment. */
interface Modelled {
  readonly id: string
  readonly period: number | null
  status: 'created' | 'open' | 'paid' | 'expired' | 'refunded' | 'refused'
  paidAt: number
}

async function makeMember(db: Services['db'], provider: string) {
  const project = { name: 'P', owner_email: 'owner@example.com', plan: 'pro' } as const
  const { id: project_id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const site = { project_id, name: 'S', subdomain: randomName() }
  const { id: site_id } = await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
  const at = { site_id, project_id }
  await db
    .insertInto('access_locks')
    .values({ ...at, mode: 'paid', updated_at: new Date() })
    .execute()
  const { id: member_id } = await db
    .insertInto('members')
    .values({
      ...at,
      email: 'ada@example.com',
      host: 'a.example',
      lang: 'en',
      status: 'active',
      registered_at: new Date(),
    } as never)
    .returning('id')
    .executeTakeFirstOrThrow()
  return { ...at, member_id, provider }
}

async function runSequence(number: number): Promise<{ log: string[]; statuses: string[] }> {
  const random = randomOf(seed + number)
  const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
  let nowMs = Date.now()
  const services: Services = { ...base, clock: () => new Date(nowMs) }
  const { db } = services
  const name = pick(checkoutProviderNames.filter((one) => one !== 'test'))
  const double = doubles[name] as PaymentDouble
  const provider = providerOf(services, name)
  // whose clock is that of the signatures
  const signed = providerOf(base, name)
  if (!provider || !signed) throw new Error('not configured')
  const { member_id, site_id, project_id } = await makeMember(db, name)
  const modelled: Modelled[] = []
  let blocked = false
  const log: string[] = []

  const paymentOf = async (one: Modelled): Promise<DoublePayment | undefined> => {
    const row = await findCheckout(db, one.id)
    return row?.external_id == null ? undefined : double.payments.get(row.external_id)
  }
  const isSame = (payment: DoublePayment, one: Modelled) =>
    payment.amount_minor === 100 &&
    payment.currency === 'RUB' &&
    payment.metadata['checkout_id'] === one.id &&
    payment.metadata['site_id'] === site_id
  const counting = () => modelled.filter(({ status }) => status === 'paid').sort((a, b) => a.paidAt - b.paidAt)
  /** When the access of the model ends. */
  function end(): number {
    let until = 0
    for (const { paidAt, period } of counting())
      until = period === null ? Number.POSITIVE_INFINITY : Math.max(until, paidAt) + period * dayMs
    return until
  }
  /** What an answer of the provider means. */
  function see(one: Modelled, status: DoublePayment['status'], same: boolean): void {
    if (one.status === 'refunded' || one.status === status) return
    if (status === 'refunded') {
      const wasPaid = one.status === 'paid'
      one.status = 'refunded'
      if (wasPaid && end() <= nowMs) blocked = true
      // the payments of an earlier period count no more after a block
    } else if (one.status === 'paid') return
    else if (status === 'paid') {
      one.status = same ? 'paid' : 'refused'
      one.paidAt = nowMs
    } else if (one.status !== 'refused') one.status = status
  }
  async function look(one: Modelled, times = 1): Promise<void> {
    if (one.status === 'created') one.status = 'open'
    else {
      const payment = await paymentOf(one)
      if (payment) see(one, payment.status, isSame(payment, one))
    }
    await Promise.all(Array.from({ length: times }, () => lookAtCheckout(services, one.id)))
    if (times === 1) return
    // the second look of two at the same time may come after the begin of the first
    await lookAtCheckout(services, one.id)
    const payment = await paymentOf(one)
    if (payment) see(one, payment.status, isSame(payment, one))
  }

  const steps: Record<string, () => Promise<void>> = {
    async begin() {
      const period = pick([null, 30, 30])
      const values = {
        amount_minor: 100,
        currency: 'RUB',
        period_days: period,
        provider: name,
        origin: 'https://a.example',
        return_path: '/',
      }
      const { id } = await db
        .insertInto('checkouts')
        .values({ site_id, project_id, member_id, ...values, created_at: new Date(nowMs) })
        .returning('id')
        .executeTakeFirstOrThrow()
      modelled.push({ id, period, status: 'created', paidAt: 0 })
      await look(modelled.at(-1) as Modelled)
    },
    async atProvider() {
      const payment = await paymentOf(pick(modelled))
      if (!payment) return
      // late money, too: what was given up is paid after all
      const next = {
        open: ['paid', 'paid', 'expired'],
        expired: ['expired', 'paid'],
        paid: ['paid', 'refunded'],
        refunded: ['refunded'],
      } as const
      payment.status = pick<DoublePayment['status']>(next[payment.status])
    },
    async alter() {
      const payment = await paymentOf(pick(modelled))
      if (payment?.status !== 'open') return
      const changes: Partial<DoublePayment>[] = [
        { amount_minor: 99 },
        { currency: 'KZT' },
        { metadata: { ...payment.metadata, site_id: crypto.randomUUID() } },
        {
          metadata: {
            ...payment.metadata,
            checkout_id: modelled[0]?.id === payment.metadata['checkout_id'] ? member_id : (modelled[0]?.id ?? ''),
          },
        },
      ]
      Object.assign(payment, pick(changes))
    },
    look: () => look(pick(modelled)),
    lookTwice: () => look(pick(modelled), 2),
    async callback() {
      const one = pick(modelled)
      const payment = await paymentOf(one)
      if (!payment) return
      // whatever it says, the provider is asked
      const { headers, body } = double.callback(payment, pick(['paid', 'expired', 'refunded']))
      await takeCallback(services, name, signed.parseWebhook(headers, Buffer.from(body)))
      const signal = await db.selectFrom('workflow_starts').select('id').where('workflow_id', '=', `checkout:${one.id}`).execute()
      if (payment.metadata['checkout_id'] === one.id) expect(signal.length).toBeGreaterThan(0)
      if (random() < 0.7) await look(one)
    },
    async forged() {
      const unknown = {
        id: crypto.randomUUID(),
        sent: {},
        status: 'paid',
        amount_minor: 100,
        currency: 'RUB',
        metadata: {},
      } as const
      const { headers, body } = double.callback({ ...unknown }, 'paid')
      await takeCallback(services, name, signed.parseWebhook(headers, Buffer.from(body)))
      if (name === 'stripe')
        expect(() => provider.parseWebhook({ 'stripe-signature': 't=1,v1=00' }, Buffer.from(body))).toThrow('not signed')
    },
    async lateAnswer() {
      const one = pick(modelled)
      const row = await findCheckout(db, one.id)
      if (row?.external_id == null) return
      const seen = await provider.getStatus(row.external_id)
      const payment = double.payments.get(row.external_id)
      if (!seen || !payment) return
      const same = isSame(payment, one)
      for (let i = 0; i < 2; i++) await (steps[pick(['atProvider', 'look', 'pass'])] ?? (async () => undefined))()
      see(one, seen.status, same)
      await settle(services, row, seen)
    },
    async fail() {
      const one = pick(modelled)
      if (one.status === 'created') return
      const spoiled: Services = {
        ...services,
        config: { ...services.config, payments: { ...services.config.payments, [name]: undefined } },
      }
      await lookAtCheckout(spoiled, one.id)
    },
    async pass() {
      nowMs += pick([1000, 3_600_000, 5 * dayMs, 20 * dayMs])
    },
  }
  await steps['begin']?.()
  for (let i = 0; i < stepsOfSequence; i++) {
    const step = pick([...Object.keys(steps), 'atProvider', 'callback', 'look'])
    log.push(step)
    await steps[step]?.()
    const member = await db.selectFrom('members').selectAll().where('id', '=', member_id).executeTakeFirstOrThrow()
    const rows = await db.selectFrom('checkouts').select(['id', 'status']).where('site_id', '=', site_id).execute()
    const expected = modelled.map(({ id, status }) => ({ id, status }))
    const until = member.paid_at === null ? 0 : (member.paid_until?.getTime() ?? Number.POSITIVE_INFINITY)
    const has = { access: member.status === 'active' && until > nowMs, blocked: member.status === 'blocked' }
    expect({ log, rows: rows.sort((a, b) => a.id.localeCompare(b.id)), ...has }).toEqual({
      log,
      rows: expected.sort((a, b) => a.id.localeCompare(b.id)),
      access: !blocked && end() > nowMs,
      blocked,
    })
  }
  return { log, statuses: [...modelled.map(({ status }) => status), ...(blocked ? ['blocked'] : [])] }
}

test(`E22 E37: in ${sequences} random sequences access equals what the provider says (seed ${seed})`, {
  timeout: 600_000,
}, async () => {
  let next = 0
  let steps = 0
  const endings = new Set<string>()
  const run = async () => {
    while (next < sequences) {
      const { log, statuses } = await runSequence(next++)
      steps += log.length
      for (const status of statuses) endings.add(status)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, run))
  expect(steps).toBe(sequences * stepsOfSequence)
  expect([...endings].sort()).toEqual(['blocked', 'expired', 'open', 'paid', 'refunded', 'refused'])
})
