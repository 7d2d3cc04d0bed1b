import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import type { DoublePayment, PaymentDouble } from '../doubles/provider-server.ts'
import { startYookassa } from '../doubles/yookassa.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { type Answer, ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Visitors pay for a closed site while the api, the worker and PostgreSQL are killed one after the other. Each begins one payment at the provider,
// everybody whose money the provider has gets in, and nobody else; who is refunded is shut out.

const kills = ['api', 'worker', 'postgres', 'worker', 'api', 'worker'] as const
const payerCount = 12
const soon = { timeoutMs: 240_000 }

const cleanup = new AsyncDisposableStack()
let platform: Platform
let yookassa: PaymentDouble
let mails: Awaited<ReturnType<typeof startMailServer>>
let site: Site
beforeAll(async () => {
  yookassa = cleanup.use(await startYookassa())
  mails = cleanup.use(await startMailServer())
  // each visitor comes from an address of its own
  const settings = { ...yookassa.env, PLINTH_SMTP_URL: mails.url, PLINTH_TRUSTED_PROXIES: '127.0.0.1/32' }
  platform = cleanup.use(await startPlatform({ settings }))
  const owner = await platform.project('enterprise')
  site = await platform.site(owner)
  const price = { amount_minor: 49_900, currency: 'RUB', period_days: 30, provider: 'yookassa' }
  await ok(platform.call(`POST /api/v1/sites/${site.id}/access/paid-mode`, { key: site.key, json: price }))
  const open = { moderation: false, max_seats: payerCount }
  await ok(platform.call(`PATCH /api/v1/sites/${site.id}/members-settings`, { key: site.key, json: open }))
})
afterAll(() => cleanup.disposeAsync())

const statuses = new Map<number, number>()
/** Sends a request until it is answered with anything but an outage. */
async function persist(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send().catch(() => undefined)
    statuses.set(answer?.status ?? 0, (statuses.get(answer?.status ?? 0) ?? 0) + 1)
    if (answer && answer.status < 500) return answer
    await pause(200)
  }
}

interface Payer {
  readonly email: string
  readonly post: (path: string, fields: Record<string, string>) => Promise<Answer>
  readonly look: () => Promise<Answer>
}

/** A visitor who has confirmed an address. */
async function confirm(number: number): Promise<Payer> {
  const email = `payer-${number}@example.com`
  let cookie = ''
  const port = platform.port
  const origin = `http://${site.host.split(':')[0]}:${port}`
  const headers = () => ({ origin, cookie, 'x-forwarded-for': `10.1.0.${number + 1}` })
  const host = new URL(origin).host
  const type = 'application/x-www-form-urlencoded'
  const post = (path: string, fields: Record<string, string>) =>
    persist(() =>
      platform.call(`POST ${path}`, { host, type, bytes: new URLSearchParams(fields).toString(), headers: headers() }),
    )
  const asked = await post(gatePaths.email, { email, to: '/' })
  const challenge = /name="challenge" value="([0-9a-f-]{36})"/.exec(String(asked.body))?.[1] ?? ''
  const codeOf = () => {
    const mail = mails.received.findLast(({ envelope }) => envelope.to[0] === email)
    return /\b\d{6}\b/.exec(mail?.text ?? '')?.[0]
  }
  await waitUntil('the code', () => codeOf() !== undefined, soon)
  const entered = await post(gatePaths.code, { email, challenge, code: codeOf() ?? '', to: '/' })
  cookie = entered.headers['set-cookie']?.[0]?.split(';', 1)[0] ?? ''
  expect([entered.status, cookie.startsWith('svc_p=')]).toEqual([402, true])
  return { email, post, look: () => persist(() => platform.call(`GET ${gatePaths.payment}`, { host, headers: headers() })) }
}

/** Calls the platform until it answers with 200, as the provider does. */
async function callBack(payment: DoublePayment, event: 'paid' | 'refunded'): Promise<void> {
  const { body } = yookassa.callback(payment, event)
  const send = () => platform.call('POST /hooks/payments/yookassa', { bytes: body })
  while ((await persist(send)).status !== 200) await pause(1000)
}

const members = async (): Promise<any[]> =>
  (await ok(persist(() => platform.call(`GET /api/v1/sites/${site.id}/members?limit=200`, { key: site.key })))).items

test('22: kill -9 of api, worker and PostgreSQL while visitors pay: access is what the provider says, and nobody pays twice', async () => {
  const payers: Payer[] = []
  for (let i = 0; i < payerCount; i++) payers.push(await confirm(i))
  let done = 0
  /** Of each payer what the provider did in the end. */
  const fates = payers.map((_payer, i) => (['paid', 'refunded', 'expired', 'paid without callback'] as const)[i % 4] ?? 'paid')
  const payments: DoublePayment[] = []
  const paying = payers.map(async (payer, i) => {
    await pause(i * 1500)
    expect((await payer.post(gatePaths.pay, { to: '/' })).headers.location).toBe(gatePaths.payment)
    let page = ''
    while (page === '') {
      const { headers } = await payer.look()
      page = /url=(http.*orderId=.*)$/.exec(String(headers['refresh']))?.[1] ?? ''
      if (page === '') await pause(500)
    }
    const payment = yookassa.payments.get(new URL(page).searchParams.get('orderId') ?? '') as DoublePayment
    payments[i] = payment
    if (fates[i] === 'expired') payment.status = 'expired'
    else {
      payment.status = 'paid'
      if (fates[i] !== 'paid without callback') await callBack(payment, 'paid')
      while ((await payer.look()).status !== 303) await pause(1000)
    }
    if (fates[i] === 'refunded') {
      payment.status = 'refunded'
      await callBack(payment, 'refunded')
    }
    done += 1
  })
  const restarts: string[] = []
  for (const name of kills) {
    await pause(2000)
    restarts.push(`${name} ${await platform.restart(name, 'SIGKILL')} ms`)
  }
  await Promise.all(paying)
  const stateOf = async () => {
    const rows = await members()
    return payers.map(({ email }) => {
      const row = rows.find((one) => one.email === email)
      return `${row?.status} ${row?.payment === null ? 'unpaid' : 'paid'}`
    })
  }
  const expected = fates.map(
    (fate) => ({ paid: 'active paid', refunded: 'blocked unpaid', expired: 'pending unpaid' })[fate as 'paid'] ?? 'active paid',
  )
  let last: string[] = []
  const isSettled = async () => {
    last = await stateOf()
    return JSON.stringify(last) === JSON.stringify(expected)
  }
  await waitUntil('the members', isSettled, soon).catch(() => undefined)
  const begun = [...yookassa.payments.values()].map(({ metadata }) => metadata['checkout_id'])
  const twice = begun.length - payerCount
  const wrong = last.filter((state, i) => state !== expected[i]).length
  report(
    '22',
    `${wrong} of ${payerCount} members with another access than the provider says, ${twice} payments begun twice, ${done} flows ended (${restarts.join(', ')})`,
    '0 wrong, 0 twice',
  )
  expect([last, twice, done]).toEqual([expected, 0, payerCount])
})
