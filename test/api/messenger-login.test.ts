import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import type { TestChannel } from '../doubles/bot-api.ts'
import { keptLog } from '../kept-log.ts'
import { deployFiles, page } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'
import type { LoginAnswer } from './closed-site.ts'
import { newAddress } from './form-site.ts'
import { connect, lastAnswer, type Messenger, makeSubscribersSite, newPerson, opens } from './messenger-site.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

const hourMs = 3_600_000
const { log, written } = keptLog()
let w: World
let owner: TestProject
let second: string
const channels: Partial<Record<Messenger, { readonly channel: TestChannel; readonly id: string }>> = {}
let site: Awaited<ReturnType<typeof makeSubscribersSite>>
beforeAll(async () => {
  w = await world({ edge: true, log })
  owner = await w.project('enterprise')
  second = await w.openSecondApi()
  for (const messenger of ['telegram', 'max'] as const) {
    const channel = w[messenger].channel()
    channels[messenger] = { channel, id: await connect(w, owner, messenger, channel) }
  }
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  for (const messenger of ['telegram', 'max'] as const) Object.assign(w[messenger], { fault: undefined, delayMs: 0 })
  site = await makeSubscribersSite(w, owner, [channels.telegram?.id ?? '', channels.max?.id ?? ''])
})

const channelOf = (messenger: Messenger) => channels[messenger]?.channel ?? w[messenger].channel()
function subscriber(messenger: Messenger): number {
  const person = newPerson()
  channelOf(messenger).roles.set(person, 'member')
  return person
}

interface Begun {
  readonly link: string
  readonly challenge: string
}

/** What a page of the login has in it. */
const shown = ({ body }: Pick<LoginAnswer, 'body'>): Begun => ({
  link: /href="(https:\/\/(?:t\.me|max\.ru)\/\w+\?start=[\w-]+)"/.exec(body)?.[1] ?? '',
  challenge: /name="challenge" value="([\w-]+)"/.exec(body)?.[1] ?? '',
})

const begin = async (messenger: Messenger, at = site, address = newAddress()): Promise<Begun> =>
  shown(await at.post(gatePaths.messenger, { provider: messenger, to: '/page' }, { address }))
const codeFor = (messenger: Messenger, person: number) => /\b\d{6}\b/.exec(lastAnswer(w, messenger, person))?.[0] ?? ''
const enter = ({ challenge }: Begun, code: string, options: Parameters<typeof site.post>[2] = {}, at = site) =>
  at.post(gatePaths.messengerCode, { challenge, code, to: '/page' }, options)

async function login(messenger: Messenger, person: number): Promise<LoginAnswer> {
  const begun = await begin(messenger)
  await opens(w, messenger, person, begun.link)
  return await enter(begun, codeFor(messenger, person))
}

const visits = createVisits(secretKey)
async function visitIn(cookie: string | undefined) {
  const { epoch } = await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', site.id).executeTakeFirstOrThrow()
  return visits.read({ site_id: site.id, host: site.hostname, epoch }, cookie?.slice(cookie.indexOf('=') + 1) ?? '')
}
/** A wrong code that differs from the right one. */
const wrongCode = (right: string) => (right === '000000' ? '000001' : '000000')

describe.each(['telegram', 'max'] as const)('M02: %s', (messenger: Messenger) => {
  test('a subscriber types the code that the bot sent, and is inside', async () => {
    await deployFiles(w, owner, site.id, [page('for subscribers')])
    await expect.poll(async () => (await w.visit(site.subdomain)).status).toBe(401)
    const person = subscriber(messenger)
    const begun = await begin(messenger)
    await opens(w, messenger, person, begun.link, 'ru')
    const said = lastAnswer(w, messenger, person)
    expect([said.includes(site.hostname), said.includes('никому')]).toEqual([true, true])
    const answer = await enter(begun, codeFor(messenger, person))
    expect([answer.status, answer.headers.location]).toEqual([303, '/page'])
    const opened = await w.visit(site.subdomain, '/', { cookie: answer.cookie ?? '' })
    expect([opened.status, opened.body.includes('for subscribers')]).toEqual([200, true])
  })

  test('the visit holds for 24 hours, and its cookie for 30 days', async () => {
    const answer = await login(messenger, subscriber(messenger))
    const visit = await visitIn(answer.cookie)
    expect(Math.abs((visit?.until.getTime() ?? 0) - w.clock().getTime() - 24 * hourMs)).toBeLessThan(60_000)
    expect(answer.headers['set-cookie']?.[0]).toMatch(/Max-Age=(2592000|2591999);/)
  })

  test('who does not subscribe is a stranger, with the right code', async () => {
    const answer = await login(messenger, newPerson())
    expect([answer.status, answer.cookie]).toEqual([403, undefined])
  })

  test.each([
    ['kicked out', (person: number) => channelOf(messenger).roles.delete(person)],
    ['still the owner', (person: number) => channelOf(messenger).roles.set(person, 'owner')],
  ])('the roles decide when the code is entered: %s', async (what, change) => {
    const person = subscriber(messenger)
    const begun = await begin(messenger)
    await opens(w, messenger, person, begun.link)
    change(person)
    expect((await enter(begun, codeFor(messenger, person))).status).toBe(what === 'kicked out' ? 403 : 303)
  })

  test('a subscriber of one of several channels passes, also when the bot has lost another one', async () => {
    const lost = w[messenger].channel()
    const ids = [channels[messenger]?.id ?? '', await connect(w, owner, messenger, lost)]
    site = await makeSubscribersSite(w, owner, ids)
    lost.roles.set(w[messenger].botId, 'member')
    expect((await login(messenger, subscriber(messenger))).status).toBe(303)
    const listedNow = (await w.call('GET /api/v1/messenger-channels', { key: owner.key })).body
    expect(listedNow.find(({ id }: any) => id === ids[1]).bot_is_admin).toBe(false)
  })

  test.each(['broken', 'garbage', 'overloaded', 'silent'] as const)(
    'while the messenger is %s nobody new gets in',
    async (fault) => {
      const person = subscriber(messenger)
      const begun = await begin(messenger)
      await opens(w, messenger, person, begun.link)
      const code = codeFor(messenger, person)
      w[messenger].fault = fault
      const away = await enter(begun, code)
      expect([away.status, away.cookie]).toEqual([503, undefined])
      w[messenger].fault = undefined
      // the code is as good as before, once the messenger may be asked again
      expect((await enter(begun, code)).status).toBe(429)
      w.advance(60_001)
      if (fault === 'overloaded') await new Promise((resolve) => setTimeout(resolve, 1100))
      expect((await enter(begun, code)).status).toBe(303)
    },
  )
})

test('E37: a link that is passed on gives nothing to the one who began, who learns nothing of it', async () => {
  const victim = subscriber('telegram')
  const begun = await begin('telegram')
  await opens(w, 'telegram', victim, begun.link)
  const code = codeFor('telegram', victim)
  const reloaded = await enter(begun, wrongCode(code))
  expect([reloaded.status, reloaded.cookie, reloaded.body.includes(code)]).toEqual([401, undefined, false])
  for (let i = 0; i < 4; i++) expect((await enter(begun, wrongCode(code))).cookie).toBeUndefined()
  const burned = await enter(begun, code)
  expect([burned.status, burned.cookie]).toEqual([401, undefined])
})

test('E37: five tries at the same time over two apis burn a code, and the right one enters once', async () => {
  const person = subscriber('telegram')
  const guessed = await begin('telegram')
  await opens(w, 'telegram', person, guessed.link)
  const right = codeFor('telegram', person)
  const tries = await Promise.all(
    Array.from({ length: 20 }, (_, i) => enter(guessed, wrongCode(right), { base: i % 2 ? w.base : second })),
  )
  expect(tries.filter(({ cookie }) => cookie !== undefined)).toEqual([])
  expect((await enter(guessed, right)).status).toBe(401)

  const other = subscriber('telegram')
  const begun = await begin('telegram')
  await opens(w, 'telegram', other, begun.link)
  const code = codeFor('telegram', other)
  const entered = await Promise.all(Array.from({ length: 5 }, (_, i) => enter(begun, code, { base: i % 2 ? w.base : second })))
  expect(entered.filter(({ status }) => status === 303)).toHaveLength(1)
  expect((await enter(begun, code)).status).toBe(401)
})

test('E37: a code is good for its own login, its own site and its own host only', async () => {
  const [person, attacker] = [subscriber('telegram'), newPerson()]
  const [mine, theirs] = [await begin('telegram'), await begin('telegram')]
  await opens(w, 'telegram', person, mine.link)
  const code = codeFor('telegram', person)
  await opens(w, 'telegram', attacker, theirs.link)
  expect((await enter(theirs, code)).cookie).toBeUndefined()
  const otherSite = await makeSubscribersSite(w, owner, [channels.telegram?.id ?? ''])
  expect((await enter(mine, code, {}, otherSite)).cookie).toBeUndefined()
  expect((await enter({ ...mine, challenge: crypto.randomUUID() }, code)).cookie).toBeUndefined()
  expect((await enter({ ...mine, challenge: 'x' }, code)).status).toBe(401)
  expect((await enter(mine, code)).status).toBe(303)
})

test('E37: a link belongs to the first who opens it, sends three codes, and works for ten minutes', async () => {
  const [first, later] = [subscriber('telegram'), subscriber('telegram')]
  const begun = await begin('telegram')
  await opens(w, 'telegram', first, begun.link)
  const old = codeFor('telegram', first)
  await opens(w, 'telegram', later, begun.link)
  expect(codeFor('telegram', later)).toBe('')
  await opens(w, 'telegram', first, begun.link)
  const next = codeFor('telegram', first)
  await opens(w, 'telegram', first, begun.link)
  await opens(w, 'telegram', first, begun.link)
  expect(lastAnswer(w, 'telegram', first)).toContain('too old')
  expect([old, next].map((code) => /^\d{6}$/.test(code))).toEqual([true, true])
  expect((await enter(begun, old)).cookie).toBeUndefined()

  const late = await begin('telegram')
  await opens(w, 'telegram', later, late.link)
  const code = codeFor('telegram', later)
  w.advance(10 * 60_000 + 1)
  expect((await enter(late, code)).cookie).toBeUndefined()
  await opens(w, 'telegram', later, late.link)
  expect(lastAnswer(w, 'telegram', later)).toContain('too old')
})

test('E36: a person gets five codes an hour over the whole platform, and a network 20 links', async () => {
  const person = subscriber('telegram')
  const codes: string[] = []
  for (let i = 0; i < 6; i++) {
    await opens(w, 'telegram', person, (await begin('telegram')).link)
    codes.push(codeFor('telegram', person))
  }
  expect([codes.slice(0, 5).every((code) => code !== ''), codes[5]]).toEqual([true, ''])
  const address = newAddress()
  const statuses: number[] = []
  for (let i = 0; i < 21; i++) {
    statuses.push((await site.post(gatePaths.messenger, { provider: 'telegram' }, { address })).status)
  }
  expect(statuses.filter((status) => status === 429)).toHaveLength(1)
})

test('a code before anybody has opened the link is wrong', async () => {
  const begun = await begin('telegram')
  const answer = await enter(begun, '')
  expect([answer.status, answer.cookie]).toEqual([401, undefined])
  expect(shown(answer)).toEqual(begun)
})

test.each([
  ['no messenger', {}],
  ['another messenger', { provider: 'icq' }],
])('a form with %s shows the page again', async (_what, fields) => {
  expect((await site.post(gatePaths.messenger, fields)).status).toBe(401)
})

test('a messenger that none of the channels is of lets nobody begin', async () => {
  const max = await makeSubscribersSite(w, owner, [channels.max?.id ?? ''])
  expect((await max.post(gatePaths.messenger, { provider: 'telegram' })).status).toBe(403)
})

test('check 81: forms of other pages are refused', async () => {
  const begun = await begin('telegram')
  const origin = 'https://evil.example'
  expect((await site.post(gatePaths.messenger, { provider: 'telegram' }, { origin })).status).toBe(403)
  expect((await enter(begun, '123456', { origin })).status).toBe(403)
})

test('L08: a login counts as an open, and nobody new gets in over the limit', async () => {
  await w.call(`PATCH /api/v1/sites/${site.id}/access/opens`, { key: owner.key, json: { max_opens: 1 } })
  expect((await login('telegram', subscriber('telegram'))).status).toBe(303)
  const full = await login('telegram', subscriber('telegram'))
  expect([full.status, full.cookie]).toEqual([401, undefined])
})

test('taking the channel away, or opening the site, ends the visits', async () => {
  const { cookie = '' } = await login('telegram', subscriber('telegram'))
  await deployFiles(w, owner, site.id, [page('for subscribers')])
  const status = () => expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status)
  await status().toBe(200)
  await site.close([channels.max?.id ?? ''])
  await status().toBe(401)
})

describe('the renewal', () => {
  const renew = async (cookie: string | undefined, { to = '/page', at = site, base = w.base } = {}) => {
    const { request } = await import('node:http')
    return await new Promise<{ status: number; location: string | undefined; cookie: string; body: string }>(
      (resolve, reject) => {
        const headers = { host: at.host, ...(cookie === undefined ? {} : { cookie }), 'x-forwarded-for': newAddress() }
        request(`${base}${gatePaths.renew}?to=${encodeURIComponent(to)}`, { headers }, (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => {
            const [set = ''] = response.headers['set-cookie'] ?? []
            const { location } = response.headers
            resolve({
              status: response.statusCode ?? 0,
              location,
              cookie: set.split(';', 1)[0] ?? '',
              body: Buffer.concat(chunks).toString(),
            })
          })
        })
          .on('error', reject)
          .end()
      },
    )
  }
  const untilOf = async (cookie: string) => (await visitIn(cookie))?.until.getTime() ?? 0
  const calls = () => w.telegram.asked.filter(({ path }) => path === '/getChatMember').length
  const now = () => w.clock().getTime()

  test('a visit that holds leads back without a question', async () => {
    const { cookie } = await login('telegram', subscriber('telegram'))
    const before = calls()
    const answer = await renew(cookie, { to: '/a?b=1' })
    expect([answer.status, answer.location, calls()]).toEqual([303, '/a?b=1', before])
    expect((await renew(cookie, { to: '//evil.example' })).location).toBe('/')
  })

  test('M02: after a day a subscriber is let in again, and asked for once a minute', async () => {
    const { cookie } = await login('telegram', subscriber('telegram'))
    w.advance(24 * hourMs + 1000)
    const before = calls()
    const [answer, ...others] = await Promise.all([renew(cookie), renew(cookie), renew(cookie, { base: second })])
    expect(calls() - before).toBe(1)
    for (const one of [answer, ...others]) expect([one.status, one.location]).toEqual([303, '/page'])
    const untils = await Promise.all([answer, ...others].map((one) => untilOf(one.cookie)))
    expect(Math.abs(Math.max(...untils) - now() - 24 * hourMs)).toBeLessThan(5000)
    expect(Math.abs((await untilOf((await renew(cookie)).cookie)) - now() - 24 * hourMs)).toBeLessThan(5000)
    expect(calls() - before).toBe(1)
  })

  test('M02: the edge leads a subscriber whose visit is over to the renewal, and lets in with what comes of it', async () => {
    await deployFiles(w, owner, site.id, [page('for subscribers')])
    await expect.poll(async () => (await w.visit(site.subdomain)).status).toBe(401)
    const { cookie } = await login('telegram', subscriber('telegram'))
    const { subject = '' } = (await visitIn(cookie)) ?? {}
    const { epoch } = await w.db
      .selectFrom('access_locks')
      .select('epoch')
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    const over = { subject, generation: 0, consent: 0, until: new Date(Date.now() - hourMs) }
    const old = `svc_s=${visits.issue({ site_id: site.id, host: site.hostname, epoch }, over)}`
    const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' }
    const led = await w.visit(site.subdomain, '/?a=1', { ...navigation, cookie: old })
    expect(led.status).toBe(303)
    const to = new URL(led.headers.location ?? '', site.url)
    expect([to.pathname, to.searchParams.get('to')]).toEqual([gatePaths.renew, '/?a=1'])
    const answer = await renew(old, { to: to.searchParams.get('to') ?? '' })
    expect([answer.status, answer.location]).toEqual([303, '/?a=1'])
    expect((await w.visit(site.subdomain, '/?a=1', { ...navigation, cookie: answer.cookie })).body).toContain('for subscribers')
  })

  test('M02: who has left the channel is a stranger after a day, and the cookie is removed', async () => {
    const person = subscriber('telegram')
    const { cookie } = await login('telegram', person)
    channelOf('telegram').roles.delete(person)
    w.advance(24 * hourMs + 1000)
    const answer = await renew(cookie)
    expect([answer.status, answer.location, answer.cookie]).toEqual([403, undefined, 'svc_s='])
    const again = await renew(cookie)
    expect([again.status, again.location]).toEqual([403, undefined])
    channelOf('telegram').roles.set(person, 'member')
    w.advance(60_001)
    expect((await renew(cookie)).status).toBe(303)
  })

  test.each(['broken', 'silent'] as const)(
    'E20: while the messenger is %s those who are inside stay for another hour',
    async (fault) => {
      const { cookie } = await login('telegram', subscriber('telegram'))
      w.advance(24 * hourMs + 1000)
      w.telegram.fault = fault
      const answer = await renew(cookie)
      expect(answer.status).toBe(303)
      expect(Math.abs((await untilOf(answer.cookie)) - now() - hourMs)).toBeLessThan(10_000)
      w.advance(hourMs + 1000)
      expect((await renew(answer.cookie)).status).toBe(303)
      await w.db
        .updateTable('subscribers')
        .set({ member_at: new Date(now() - 31 * 24 * hourMs) })
        .where('site_id', '=', site.id)
        .execute()
      w.advance(hourMs + 1000)
      expect((await renew(answer.cookie)).status).toBe(503)
    },
  )

  test('who had left the channel does not get back in while the messenger is away', async () => {
    const person = subscriber('telegram')
    const { cookie } = await login('telegram', person)
    channelOf('telegram').roles.delete(person)
    w.advance(24 * hourMs + 1000)
    expect((await renew(cookie)).status).toBe(403)
    w.telegram.fault = 'broken'
    w.advance(60_001)
    expect((await renew(cookie)).status).toBe(503)
  })

  test('check 72: only a visit of this site, this host and this epoch of the last 30 days is renewed', async () => {
    const { cookie } = await login('telegram', subscriber('telegram'))
    const other = await makeSubscribersSite(w, owner, [channels.telegram?.id ?? ''])
    // the last character holds bits that do not count
    const changed = (cookie ?? '').replace(/.(?=.$)/, (letter) => (letter === 'A' ? 'B' : 'A'))
    for (const wrong of [undefined, 'svc_s=x', changed]) {
      expect([wrong, (await renew(wrong)).status]).toEqual([wrong, 401])
    }
    expect((await renew(cookie, { at: other })).status).toBe(401)
    const { epoch } = await w.db
      .selectFrom('access_locks')
      .select('epoch')
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    const { subject = '' } = (await visitIn(cookie)) ?? {}
    const issued = (change: object) =>
      `svc_s=${visits.issue({ site_id: site.id, host: site.hostname, epoch }, { subject, generation: 0, consent: 0, until: w.clock(), ...change })}`
    expect((await renew(issued({}))).status).toBe(303)
    expect((await renew(issued({ subject: crypto.randomUUID() }))).status).toBe(401)
    await w.db
      .insertInto('access_generations')
      .values({ site_id: site.id, subject, generation: 1, raised_at: new Date() })
      .execute()
    expect((await renew(cookie)).status).toBe(401)
    expect((await renew(issued({ generation: 1 }))).status).toBe(303)
    expect((await renew(issued({ generation: 1, until: new Date(now() - 29 * 24 * hourMs - 1000) }))).status).toBe(401)
    await site.close([channels.max?.id ?? ''])
    expect((await renew(issued({ generation: 1 }))).status).toBe(401)
  })

  test('a site that was opened, or closed in another way, leads back', async () => {
    const { cookie } = await login('telegram', subscriber('telegram'))
    await w.call(`PUT /api/v1/sites/${site.id}/access`, { key: owner.key, json: { level: 'easy' } })
    expect((await renew(cookie)).location).toBe('/page')
    await w.call(`DELETE /api/v1/sites/${site.id}/access`, { key: owner.key })
    expect((await renew(cookie)).location).toBe('/page')
  })

  test('a visit ends with the lock', async () => {
    const { cookie } = await login('telegram', subscriber('telegram'))
    await w.call(`PATCH /api/v1/sites/${site.id}/access/expiry`, { key: owner.key, json: { days: 1 } })
    w.advance(24 * hourMs + 60_000)
    const answer = await renew(cookie)
    expect([answer.status, answer.location]).toEqual([401, undefined])
  })
})

test('a slow messenger stalls no other one', bestOfThree, async () => {
  const people = Array.from({ length: 6 }, () => subscriber('telegram'))
  const begun = await Promise.all(people.map(() => begin('telegram')))
  for (const [i, person] of people.entries()) await opens(w, 'telegram', person, begun[i]?.link ?? '')
  w.telegram.delayMs = 3000
  const slow = people.map((person, i) => enter(begun[i] ?? { link: '', challenge: '' }, codeFor('telegram', person)))
  const startedAt = performance.now()
  expect((await login('max', subscriber('max'))).status).toBe(303)
  expect(performance.now() - startedAt).toBeLessThan(2500)
  for (const answer of await Promise.all(slow)) expect(answer.status).toBe(303)
})

test('no log line has a code, a nonce or a person', async () => {
  const person = newPerson() * 1_000_033
  channelOf('telegram').roles.set(person, 'member')
  const begun = await begin('telegram')
  await opens(w, 'telegram', person, begun.link)
  const code = codeFor('telegram', person)
  await enter(begun, wrongCode(code))
  expect((await enter(begun, code)).status).toBe(303)
  const lines = written.join('')
  expect(lines).toContain('visitor logged in with a messenger')
  for (const secret of [begun.link.split('=l')[1] ?? '', String(person)])
    expect([secret, lines.includes(secret)]).toEqual([secret, false])
  const rows = JSON.stringify(await w.db.selectFrom('access_rates').selectAll().execute())
  expect(rows.includes(String(person))).toBe(false)
})
