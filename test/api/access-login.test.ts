import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { anybody, createVisits } from '../../infra/crypto/visits.ts'
import { ask } from '../edge/test-edge.ts'
import { keptLog } from '../kept-log.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'
import { type ClosedSite, makeClosedSite, password, post, sealedPassword, visitOf } from './closed-site.ts'

const dayMs = 24 * 3_600_000
const { log, written } = keptLog()
let w: World
let owner: TestProject
let second: string
let site: ClosedSite
beforeAll(async () => {
  w = await world({ edge: true, log })
  owner = await w.project('enterprise')
  second = await w.openSecondApi()
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeClosedSite(w, owner)
})

const login = (text = password, options: Parameters<ClosedSite['post']>[2] & { to?: string } = {}) =>
  site.post(gatePaths.password, { password: text, to: options.to ?? '/' }, options)

test('L02: the password leads to the page that was asked for, with a visit of 30 days', async () => {
  await deployFiles(w, owner, site.id, [page('the content')])
  await expect.poll(async () => (await w.visit(site.subdomain)).status).toBe(401)
  expect((await w.visit(site.subdomain)).body).not.toContain('the content')
  const answer = await login(password, { to: '/?from=login' })
  expect(answer).toMatchObject({ status: 303, headers: { location: '/?from=login', 'cache-control': 'no-store' } })
  expect(answer.headers['set-cookie']?.[0]).toMatch(
    /^svc_s=[A-Za-z0-9_-]{59}; Path=\/; Max-Age=(2592000|2591999); HttpOnly; SameSite=Lax$/,
  )
  expect(await visitOf(site, answer)).toMatchObject({ subject: anybody, generation: 0 })
  const opened = await w.visit(site.subdomain, '/?from=login', { cookie: answer.cookie ?? '' })
  expect([opened.status, opened.body.includes('the content')]).toEqual([200, true])
})

test('L02: another password shows the page again, without a cookie', async () => {
  for (const wrong of ['', 'open', `${password} `, 'x'.repeat(5000)]) {
    const answer = await login(wrong, { to: '/docs/' })
    expect([answer.status, answer.cookie]).toEqual([401, undefined])
    expect(answer.body).toContain('value="/docs/"')
    expect(answer.body).toContain('role="alert"')
    expect(answer.headers['content-security-policy']).toContain("form-action 'self'")
  }
  expect((await site.lock()).opens_count).toBe(0)
})

test('L02: a site whose password cannot be opened any more lets nobody in', async () => {
  await site.change({ sealed_password: sealedPassword(w, owner.id) })
  expect((await login()).status).toBe(401)
})

test('L06: a visit is over as soon as the lock changes', async () => {
  const answer = await login()
  const before = await visitOf(site, answer)
  await site.change({ epoch: crypto.randomUUID() })
  expect([before?.subject, await visitOf(site, answer)]).toEqual([anybody, undefined])
})

test('L02 L05 L06: a password that an operation sets opens the site, until it is changed or the lock is removed', async () => {
  const { key } = owner
  const open = await makeSite(w, owner)
  await deployFiles(w, owner, open.id, [page('the content')])
  const { host } = new URL(open.url)
  const access = `/api/v1/sites/${open.id}/access`
  const close = async (json: object) => (await w.call(`PUT ${access}`, { key, json })).body.password
  const enter = (text: string) => post(w, gatePaths.password, { password: text, to: '/' }, { host })
  const shows = (cookie = '') => expect.poll(async () => (await w.visit(open.subdomain, '/', { cookie })).status)
  const first = await close({ level: 'medium' })
  await shows().toBe(401)
  const { cookie } = await enter(first)
  await shows(cookie).toBe(200)
  const second = await close({ password: 'пароль №1' })
  await shows(cookie).toBe(401)
  expect([(await enter(first)).status, (await enter(second)).status]).toEqual([401, 303])
  expect((await w.call(`DELETE ${access}`, { key })).status).toBe(200)
  await shows().toBe(200)
})

test('check 72: over https the cookie is bound to the host, and a visit belongs to one host of one site', async () => {
  const answer = await login(password, { headers: { 'x-forwarded-proto': 'https' } })
  expect(answer.headers['set-cookie']?.[0]).toMatch(
    /^__Host-svc_s=[A-Za-z0-9_-]{59}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/,
  )
  const other = await makeClosedSite(w, owner)
  expect(await visitOf(other, answer)).toBeUndefined()
  expect(await visitOf(site, answer, new URL(other.url).hostname)).toBeUndefined()
})

test('check 72: a login issues a new visit, whatever cookie the visitor presents', async () => {
  const { epoch } = await site.lock()
  const until = new Date(Date.now() + 1_000_000)
  const place = { site_id: site.id, host: new URL(site.url).hostname, epoch }
  const presented = createVisits(secretKey).issue(place, { subject: anybody, generation: 0, consent: 0, until })
  const answer = await login(password, { headers: { cookie: `svc_s=${presented}; __Host-svc_s=${presented}` } })
  expect(answer.status).toBe(303)
  expect(answer.cookie).not.toContain(presented)
  const wrong = await login('wrong', { headers: { cookie: `svc_s=${presented}` } })
  expect([wrong.status, wrong.cookie]).toEqual([401, undefined])
})

test('L07: a visit ends with the lock, after whose end nobody logs in', async () => {
  await site.change({ expires_at: new Date(Date.now() + 3_600_000) })
  const answer = await login()
  expect((await visitOf(site, answer))?.until.getTime()).toBeLessThanOrEqual(Date.now() + 3_600_000)
  expect(answer.headers['set-cookie']?.[0]).toMatch(/Max-Age=(3600|359\d);/)
  await site.change({ expires_at: new Date(Date.now() - 1) })
  const late = await login()
  expect([late.status, late.cookie]).toEqual([401, undefined])
  expect(late.body).not.toContain('type="password"')
})

test('L08 check 73: 50 logins at the same time over two apis never exceed max_opens', async () => {
  await site.change({ max_opens: 7 })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => login(password, { base: i % 2 ? w.base : second })))
  expect(answers.filter(({ status }) => status === 303)).toHaveLength(7)
  expect(answers.filter(({ status, cookie }) => status === 401 && cookie === undefined)).toHaveLength(43)
  expect((await site.lock()).opens_count).toBe(7)
})

test('E36: after ten failures of a network one try in 30 seconds is admitted, over all apis, and the right password still enters', async () => {
  const address = '2001:db8:1:1::7'
  const from = (text: string, i = 0) => login(text, { address, base: i % 2 ? w.base : second })
  const failures = await Promise.all(Array.from({ length: 25 }, (_, i) => from(`wrong ${i}`, i)))
  // the eleventh takes the first of the pauses
  expect(failures.filter(({ status }) => status === 401)).toHaveLength(11)
  const refused = failures.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(14)
  for (const { headers } of refused) expect(Number(headers['retry-after'])).toBeOneOf([28, 29, 30])
  expect((await from(password)).status).toBe(429)
  // another network, and another site, are not concerned
  expect((await login(password)).status).toBe(303)
  const other = await makeClosedSite(w, owner)
  expect((await other.post(gatePaths.password, { password, to: '/' }, { address })).status).toBe(303)
  w.advance(30_001)
  expect((await from(password)).status).toBe(303)
  // the right password has given its try back
  expect((await from('wrong')).status).toBe(401)
  expect((await from(password)).status).toBe(429)
  w.advance(15 * 60_000)
  for (let i = 0; i < 10; i++) expect((await from('wrong')).status).toBe(401)
})

test('E36: successes cost nothing', async () => {
  const address = '192.0.2.200'
  for (let i = 0; i < 15; i++) expect((await login(password, { address })).status).toBe(303)
  expect((await site.lock()).opens_count).toBe(15)
  const rows = await w.db.selectFrom('access_rates').selectAll().where('key', 'like', `%${site.id}%`).execute()
  expect(rows.flatMap(({ taken_at }) => taken_at)).toEqual([])
})

test('E36: after 200 failures in an hour over all networks, those that have failed wait, and others are let in', async () => {
  const key = `failures:${site.id}`
  const taken_at = Array.from({ length: 200 }, () => new Date())
  await w.db.insertInto('access_rates').values({ key, taken_at }).execute()
  const address = '192.0.2.150'
  // two tries of the reserve, and that of the pause
  for (let i = 0; i < 3; i++) expect((await login('wrong', { address })).status).toBe(401)
  expect((await login(password, { address })).status).toBe(429)
  expect((await login(password, { address: '198.51.100.7' })).status).toBe(303)
  w.advance(30_001)
  expect((await login(password, { address })).status).toBe(303)
})

test('check 74: only a page of the same origin may log a visitor in or out', async () => {
  const { host, subdomain } = site
  const { platformDomain } = w.config.urls
  const foreign = [
    null,
    'null',
    '',
    'https://evil.example',
    `https://${host}`,
    `http://${host}:81`,
    `http://${host}.evil.example`,
    `http://evil.${host}`,
    `http://${platformDomain}`,
    `http://${host}/`,
    `http://user@${host}`,
    `HTTP://${host}`,
    `http://${subdomain}.${platformDomain}, http://${host}`,
    `http://${host} http://evil.example`,
    `http://${'x'.repeat(400)}`,
    new URL((await makeSite(w, owner)).url).origin,
  ].filter((origin) => origin !== new URL(site.url).origin)
  for (const origin of foreign) {
    for (const path of [gatePaths.password, gatePaths.email, gatePaths.code, gatePaths.logout]) {
      const answer = await site.post(path, { password, to: '/' }, { origin })
      expect([path, origin, answer.status, answer.cookie]).toEqual([path, origin, 403, undefined])
    }
  }
  expect((await site.lock()).opens_count).toBe(0)
})

test.each([
  '//evil.example',
  '/\\evil.example',
  '/\t/evil.example',
  '/.//evil.example',
  'https://evil.example',
  'javascript:alert(1)',
  '/a\r\nSet-Cookie: x=y',
  '/__svc/logout',
  `/${'a'.repeat(3000)}`,
])('check 74: a login does not lead to %j', async (to) => {
  const answer = await login(password, { to })
  expect([answer.status, answer.headers.location, answer.headers['set-cookie']?.length]).toEqual([303, '/', 1])
})

test('check 70: hosts that serve no site have no login', async () => {
  const { platformDomain } = w.config.urls
  const other = await makeClosedSite(w, owner)
  const twin = `www.${other.subdomain}.example`
  const domain = (name: string, isVerified = true) => ({
    project_id: owner.id,
    site_id: other.id,
    domain: name,
    verification_token: 'x',
    created_at: new Date(),
    ...(isVerified && { verified_at: new Date() }),
  })
  const name = other.subdomain
  await w.db
    .insertInto('domains')
    .values([domain(`${name}.example`), domain(twin), domain(`*.wild-${name}.example`), domain(`new-${name}.example`, false)])
    .execute()
  await w.db
    .insertInto('subdomains')
    .values({
      subdomain: `old-${name}`,
      site_id: other.id,
      project_id: owner.id,
      kind: 'former',
      held_until: new Date(Date.now() + dayMs),
    })
    .execute()
  const at = async (host: string) => (await post(w, gatePaths.password, { password, to: '/' }, { host })).status
  for (const host of [other.host, `${name}.example.`, `${name}.example`, `${name}.example:8080`, `a.wild-${name}.example`]) {
    expect([host, await at(host)]).toEqual([host, 303])
  }
  for (const host of [
    twin,
    `new-${name}.example`,
    `old-${name}.${platformDomain}`,
    `wild-${name}.example`,
    `a.b.wild-${name}.example`,
    `a.${other.host}`,
    platformDomain,
    'unknown.example',
    '127.0.0.1',
    new URL(w.config.urls.preview).host,
  ])
    expect([host, await at(host)]).toEqual([host, 404])
  for (const change of [{ enabled: false }, { enabled: true, deletion_scheduled_at: new Date() }]) {
    await w.db.updateTable('sites').set(change).where('id', '=', other.id).execute()
    expect([change, await at(other.host)]).toEqual([change, 404])
  }
  await w.db.updateTable('sites').set({ deletion_scheduled_at: null }).where('id', '=', other.id).execute()
  await w.db.deleteFrom('access_locks').where('site_id', '=', other.id).execute()
  // was opened while the login page was shown
  const opened = await other.post(gatePaths.password, { password, to: '/docs/' })
  expect([opened.status, opened.headers.location, opened.cookie]).toEqual([303, '/docs/', undefined])
})

test('the login of another mode shows the page of the lock', async () => {
  const closed = await makeClosedSite(w, owner, 'email')
  const answer = await closed.post(gatePaths.password, { password, to: '/' })
  expect([answer.status, answer.cookie, answer.body.includes('type="email"')]).toEqual([401, undefined, true])
})

test.each([
  ['another media type', '{}', { 'content-type': 'application/json' }, 415],
  ['a body that is too large', `password=${'x'.repeat(9000)}`, {}, 413],
  ['bytes that are no UTF-8', '%ff', {}, 401],
  ['too many fields', 'a=b&'.repeat(30), {}, 400],
  ['a compressed body', 'x', { 'content-encoding': 'gzip' }, 415],
] as const)('%s is refused', async (_what, body, headers, status) => {
  const answer = await site.post(gatePaths.password, body, { headers })
  expect([answer.status, answer.cookie, answer.headers['content-type']]).toEqual([status, undefined, 'text/html; charset=utf-8'])
})

test('a visitor who enters the address of a form gets to the site', async () => {
  for (const path of [gatePaths.password, gatePaths.email, gatePaths.code]) {
    const answer = await fetch(w.base + path, { redirect: 'manual' })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
  }
})

test('L02: a password may have 128 characters of any script', async () => {
  const long = '\u{1f511}'.repeat(128)
  await site.change({ sealed_password: sealedPassword(w, site.id, long) })
  expect((await login(long)).status).toBe(303)
  expect((await login(`${long}x`)).status).toBe(401)
  await site.change({ sealed_password: sealedPassword(w, site.id) })
})

test('L02: a page signs out of a closed site, and leads to one that is open', async () => {
  const page = (host: string) => ask(Number(new URL(w.base).port), gatePaths.logout, { host })
  const closed = await page(site.host)
  expect([closed.status, closed.headers['cache-control'], closed.headers['set-cookie']]).toEqual([200, 'no-store', undefined])
  expect(closed.body.toString()).toContain(`action="${gatePaths.logout}"`)
  expect(closed.body.toString()).toContain('<button>Sign out</button>')
  const open = await page(new URL((await makeSite(w, owner)).url).host)
  expect([open.status, open.headers.location]).toEqual([303, '/'])
  expect((await page(`nobody.${w.config.urls.platformDomain}`)).status).toBe(404)
})

test('L02: logging out ends the cookies of the visitor', async () => {
  const plain = await site.post(gatePaths.logout, {})
  expect([plain.status, plain.headers.location, plain.headers['set-cookie']]).toEqual([
    303,
    '/',
    ['svc_s', 'svc_p'].map((name) => `${name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax`),
  ])
  const secure = await site.post(gatePaths.logout, {}, { headers: { 'x-forwarded-proto': 'https' } })
  expect(secure.headers['set-cookie']).toEqual(
    ['__Host-svc_s', '__Host-svc_p'].map((name) => `${name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure`),
  )
})

test('E36: passwords and visits are not logged', async () => {
  const answer = await login()
  await login('a wrong one that is secret')
  expect(written.length).toBeGreaterThan(0)
  const lines = written.join('')
  for (const secret of [password, 'a wrong one that is secret', answer.cookie?.split('=')[1] ?? ''])
    expect(lines).not.toContain(secret)
})
