import { afterAll, beforeAll, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { keptLog } from '../kept-log.ts'
import { deployFiles, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import type { LoginAnswer } from './closed-site.ts'
import { challengeOf, type MemberSite, makeMemberSite, newEmail } from './member-site.ts'

const minuteMs = 60_000
const { log, written } = keptLog()
let w: World
let owner: TestProject
let second: string
beforeAll(async () => {
  w = await world({ edge: true, log })
  owner = await w.project('enterprise')
  second = await w.openSecondApi()
})
afterAll(() => w?.[Symbol.asyncDispose]())

const shown = ({ status, cookie }: LoginAnswer) => [status, cookie?.split('=', 1)[0]]
const seen = async (site: MemberSite, { cookie = '' }: LoginAnswer) => (await w.visit(site.subdomain, '/', { cookie })).status

test('M03: a visitor with a code is registered and let in where nothing is asked', async () => {
  const site = await makeMemberSite(w, owner)
  await deployFiles(w, owner, site.id, [page('the content')])
  await expect.poll(async () => (await w.visit(site.subdomain)).status).toBe(401)
  const email = newEmail()
  const answer = await site.login(email.toUpperCase().toLowerCase())
  expect([answer.status, answer.headers.location]).toEqual([303, '/docs/'])
  const member = await site.member(email)
  expect(member).toMatchObject({ status: 'active', name: null, consent_version: 0, last_login_at: expect.any(Date) })
  expect(await site.visit(answer)).toMatchObject({ subject: member.id, generation: 0, consent: 0 })
  expect(await seen(site, answer)).toBe(200)
  expect((await site.lock()).opens_count).toBe(1)
  expect(await site.news(email)).toEqual([`Your registration at ${new URL(site.url).hostname}`])
})

test('M03: the second login of a member is no second registration', async () => {
  const site = await makeMemberSite(w, owner)
  const email = newEmail()
  await site.login(email)
  w.advance(61_000)
  const { id } = await site.member(email)
  expect(await site.visit(await site.login(email))).toMatchObject({ subject: id })
  expect(await site.news(email)).toHaveLength(1)
})

test('M03 M06: the name and the consent are asked for after the code, with a proof of the address', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, ask_name: true, consent_mode: 'checkbox' })
  const email = newEmail()
  const proof = await site.login(email)
  expect(shown(proof)).toEqual([401, 'svc_p'])
  expect(proof.headers['set-cookie']?.[0]).toMatch(/^svc_p=[\w-]{59}; Path=\/; Max-Age=7200; HttpOnly; SameSite=Lax$/)
  for (const fields of [
    {},
    { name: 'Ada' },
    { consent: 'yes' },
    { name: ' \t', consent: 'yes' },
    { name: 'a'.repeat(81), consent: 'yes' },
  ]) {
    expect(shown(await site.register(proof, fields as Record<string, string>))).toEqual([401, undefined])
    expect(await site.member(email)).toBeUndefined()
  }
  const registered = await site.register(proof, { name: '  Ada \r\n Lovelace ', consent: 'yes' })
  expect(shown(registered)).toEqual([303, 'svc_s'])
  expect(registered.headers['set-cookie']?.[1]).toMatch(/^svc_p=; Path=\/; Max-Age=0;/)
  expect(await site.member(email)).toMatchObject({ name: 'Ada Lovelace', status: 'active' })
  // a form that was sent twice
  expect(shown(await site.register(proof, { name: 'Eve', consent: 'yes' }))).toEqual([303, 'svc_s'])
  expect(await site.member(email)).toMatchObject({ name: 'Ada Lovelace' })
  expect(await site.news(email)).toHaveLength(1)
})

test('M03: without a proof of this site, of this lock and of the last two hours nobody is registered', async () => {
  const asks = { moderation: false, ask_name: true }
  const site = await makeMemberSite(w, owner, 'members', asks)
  const other = await makeMemberSite(w, owner, 'members', asks)
  const email = newEmail()
  const foreign = await other.login(email)
  w.advance(61_000)
  const proof = await site.login(email)
  const asVisit = { ...proof, cookie: proof.cookie?.replace('svc_p', 'svc_s') ?? '' }
  await deployFiles(w, owner, site.id, [page('the content')])
  await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie: asVisit.cookie })).status).toBe(401)
  for (const { cookie = '' } of [foreign, asVisit, { cookie: '' }, { cookie: `${proof.cookie}x` }]) {
    expect(shown(await site.register({ ...proof, cookie }, { name: 'Ada' }))).toEqual([401, undefined])
  }
  await site.change({ epoch: '00000000-0000-4000-8000-000000000001' })
  expect(shown(await site.register(proof, { name: 'Ada' }))).toEqual([401, undefined])
  expect(await site.member(email)).toBeUndefined()
})

test('M03: a proof ends after two hours', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, ask_name: true })
  const email = newEmail()
  const proof = await site.login(email)
  w.advance(121 * minuteMs)
  expect(shown(await site.register(proof, { name: 'Ada' }))).toEqual([401, undefined])
  expect(await site.member(email)).toBeUndefined()
})

test('M03: a proof outlives that somebody else asks for a code to the same address', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, ask_name: true })
  const email = newEmail()
  const proof = await site.login(email)
  w.advance(61_000)
  await site.codeFor(email)
  expect(shown(await site.register(proof, { name: 'Ada' }))).toEqual([303, 'svc_s'])
})

test('M05 M09: with moderation nobody is let in before the owner approves', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: true })
  const email = newEmail()
  expect(shown(await site.login(email))).toEqual([401, 'svc_p'])
  expect(await site.member(email)).toMatchObject({ status: 'pending', last_login_at: null })
  const bodies = new Set<string>()
  for (const [status, expected] of [
    ['pending', [401, 403]],
    ['rejected', [401, 403]],
    ['blocked', [401, 403]],
    ['active', [303]],
  ] as const) {
    await site.changeMember(email, { status })
    w.advance(6 * 61 * minuteMs)
    const answer = await site.login(email)
    expect([status, expected.some((one) => one === answer.status)]).toEqual([status, true])
    bodies.add(answer.body)
    expect((await site.visit(answer)) === undefined).toBe(status !== 'active')
  }
  expect((await site.lock()).opens_count).toBe(1)
})

test('check 74: what is asked of a known address and of another one is the same until the code is entered', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: true })
  const [known, blocked, unknown] = [newEmail(), newEmail(), newEmail()]
  await site.login(known)
  await site.login(blocked)
  await site.changeMember(blocked, { status: 'blocked' })
  w.advance(61_000)
  const bodies = await Promise.all(
    [known, blocked, unknown].map(async (email) => {
      const asked = await site.post(gatePaths.email, { email, to: '/' })
      const wrong = await site.post(gatePaths.code, { email, challenge: challengeOf(asked), code: '1', to: '/' })
      const plain = (answer: LoginAnswer) =>
        [answer.status, answer.body.replaceAll(email, '').replaceAll(challengeOf(asked), '')].join(' ')
      return plain(asked) + plain(wrong)
    }),
  )
  expect(new Set(bodies).size).toBe(1)
})

test('M03: a code of a member opens once, and five wrong tries burn it', async () => {
  const site = await makeMemberSite(w, owner)
  const email = newEmail()
  const { challenge, code } = await site.codeFor(email)
  const enter = (given: string) => site.post(gatePaths.code, { email, challenge, code: given, to: '/' })
  expect((await enter(code)).status).toBe(303)
  expect(shown(await enter(code))).toEqual([401, undefined])
  const other = newEmail()
  const asked = await site.codeFor(other)
  for (let i = 0; i < 5; i++) await site.post(gatePaths.code, { email: other, challenge: asked.challenge, code: '1', to: '/' })
  expect((await site.post(gatePaths.code, { email: other, ...asked, to: '/' })).status).toBe(401)
  expect(await site.member(other)).toBeUndefined()
})

test('M11 check 73: 50 parallel registrations never exceed max_seats', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, max_seats: 7 })
  const people: { email: string; challenge: string; code: string }[] = []
  for (let i = 0; i < 50; i++) {
    const email = newEmail()
    people.push({ email, ...(await site.codeFor(email)) })
  }
  const answers = await Promise.all(
    people.map((fields, i) => site.post(gatePaths.code, { ...fields, to: '/' }, { base: i % 2 ? w.base : second })),
  )
  expect(answers.filter(({ status }) => status === 429)).toEqual([])
  expect(answers.filter(({ status }) => status === 303)).toHaveLength(7)
  const members = await w.db.selectFrom('members').select('status').where('site_id', '=', site.id).execute()
  expect(members).toEqual(Array.from({ length: 7 }, () => ({ status: 'active' })))
})

test('M03: a site has at most 10,000 members, because visitors make them', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: true })
  const at = { site_id: site.id, project_id: owner.id, status: 'rejected', registered_at: new Date() } as const
  for (let i = 0; i < 5; i++) {
    const rows = Array.from({ length: 2000 }, (_, j) => ({ ...at, email: `m${i * 2000 + j}@example.com` }))
    await w.db.insertInto('members').values(rows).execute()
  }
  const email = newEmail()
  expect(await site.visit(await site.login(email))).toBeUndefined()
  expect(await site.member(email)).toBeUndefined()
})

test('M07: a member consents with the visit, and with the proof when the visit is over', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, consent_mode: 'checkbox', consent_version: 1 })
  const { id: document } = await w.db
    .insertInto('site_documents')
    .values({ site_id: site.id, project_id: owner.id, position: 0, title: 'Rules', url: 'https://example.com/rules' })
    .returning('id')
    .executeTakeFirstOrThrow()
  const email = newEmail()
  const proved = await site.login(email)
  // of a page with other documents
  for (const consent of ['yes', site.id, `${document} ${site.id}`])
    expect(shown(await site.register(proved, { consent }))).toEqual([401, undefined])
  const inside = await site.register(proved, { consent: document })
  expect(await site.visit(inside)).toMatchObject({ consent: 1 })
  const { id } = await site.member(email)
  const consents = () => w.db.selectFrom('member_consents').selectAll().where('member_id', '=', id).execute()
  expect(await consents()).toHaveLength(1)
  await site.settings({ consent_version: 2 })
  const consent = (cookie: string, fields = {}) =>
    site.post(gatePaths.consent, { to: '/docs/', ...fields }, { headers: { cookie } })
  expect(shown(await consent(inside.cookie ?? ''))).toEqual([401, undefined])
  expect(shown(await consent(inside.cookie ?? '', { consent: 'yes' }))).toEqual([401, undefined])
  expect(shown(await consent('', { consent: document }))).toEqual([401, undefined])
  const again = await consent(inside.cookie ?? '', { consent: document })
  expect([again.status, again.headers.location, await site.visit(again)]).toMatchObject([
    303,
    '/docs/',
    { subject: id, consent: 2 },
  ])
  expect((await site.lock()).opens_count).toBe(1)
  await site.settings({ consent_version: 3 })
  w.advance(61_000)
  const proof = await site.login(email)
  expect(shown(proof)).toEqual([401, 'svc_p'])
  const entered = await consent(proof.cookie ?? '', { consent: document })
  expect(await site.visit(entered)).toMatchObject({ subject: id, consent: 3 })
  expect((await site.lock()).opens_count).toBe(2)
})

test('M05: a member who was blocked in the meantime consents in vain', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, consent_mode: 'notice', consent_version: 1 })
  const email = newEmail()
  const { cookie = '' } = await site.login(email)
  const { id } = await site.member(email)
  await site.changeMember(email, { status: 'blocked' })
  await site.settings({ consent_version: 2 })
  const consent = () => site.post(gatePaths.consent, { consent: 'yes' }, { headers: { cookie } })
  expect((await consent()).cookie).toBeUndefined()
  await site.changeMember(email, { status: 'active' })
  await w.db
    .insertInto('access_generations')
    .values({ site_id: site.id, subject: id, generation: 1, raised_at: new Date() })
    .execute()
  expect((await consent()).cookie).toBeUndefined()
  expect(await site.member(email)).toMatchObject({ consent_version: 1 })
})

test('M10: at a paid site a member pays first, and the visit ends with the period', async () => {
  const site = await makeMemberSite(w, owner, 'paid')
  const price = { site_id: site.id, project_id: owner.id, amount_minor: 500, currency: 'EUR', period_days: 1 }
  await w.db
    .insertInto('access_prices')
    .values({ ...price, provider: 'test' })
    .execute()
  const email = newEmail()
  expect(await site.visit(await site.login(email))).toBeUndefined()
  expect(await site.member(email)).toMatchObject({ status: 'pending', paid_at: null })
  const now = w.clock()
  const paid_until = new Date(now.getTime() + 24 * 60 * minuteMs)
  await site.changeMember(email, {
    status: 'active',
    paid_at: now,
    paid_minor: 500,
    paid_currency: 'EUR',
    paid_provider: 'test',
    paid_until,
  })
  w.advance(61_000)
  const inside = await site.visit(await site.login(email))
  expect(Math.abs((inside?.until.getTime() ?? 0) - paid_until.getTime())).toBeLessThan(1001)
  w.advance(24 * 60 * minuteMs)
  expect(await site.visit(await site.login(email))).toBeUndefined()
})

test('E36: addresses, names, codes and proofs of members are not logged', async () => {
  const site = await makeMemberSite(w, owner, 'members', { moderation: false, ask_name: true })
  const email = newEmail()
  const { challenge, code } = await site.codeFor(email)
  const proof = await site.post(gatePaths.code, { email, challenge, code, to: '/' })
  await site.register(proof, { name: 'Augusta Ada King' })
  const { id } = await site.member(email)
  const lines = () => written.join('')
  await expect.poll(lines).toContain(id)
  for (const secret of [email, 'Augusta', proof.cookie?.split('=')[1] ?? 'svc_p']) expect(lines()).not.toContain(secret)
  // other numbers of a log may hold six digits in a row
  expect(lines()).not.toMatch(new RegExp(`(?<![0-9a-f])${code}(?![0-9a-f])`))
})
