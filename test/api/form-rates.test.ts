import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { deleteExpired } from '../../services/removal/expired.ts'
import { type Answer, operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, newAddress, type PostOptions } from './form-site.ts'

// The rates of the form endpoint hold across processes, each of which has connections and memory of its own.

let w: World
let owner: TestProject
let site: FormSite
let second: string
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  second = await w.openSecondApi()
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeFormSite(w, owner)
})

/** Posts until the rates have decided: a server that has too much to do says so, and stores nothing. */
async function post(to: FormSite, i: number, options: PostOptions = {}): Promise<Answer> {
  for (;;) {
    const answer = await to.post({ i }, { base: baseOf(i), ...options })
    if (answer.status !== 503) return answer
  }
}
const baseOf = (i: number) => (i % 2 === 0 ? w.base : second)
const stored = (siteId = site.id) => w.db.selectFrom('form_submissions').select('id').where('site_id', '=', siteId).execute()
const count = (answers: { status: number }[], status: number) => answers.filter((answer) => answer.status === status).length

test('F12 7: a site takes exactly 30 posts a minute, whichever process they reach', async () => {
  const answers = []
  for (let wave = 0; wave < 6; wave++) answers.push(...(await Promise.all(Array.from({ length: 50 }, (_, i) => post(site, i)))))
  expect([count(answers, 200), count(answers, 429)]).toEqual([30, 270])
  const refusal = answers.find(({ status }) => status === 429)
  expect(refusal).toMatchObject({ status: 429, body: { message: expect.stringMatching(/\S/), reason: 'rate_limited' } })
  expect(Number(refusal?.headers.get('retry-after'))).toBeGreaterThan(50)
  expect(refusal?.headers.get('access-control-allow-origin')).toBe(site.url)
  expect(await stored()).toHaveLength(30)
  w.advance(30_000)
  expect((await post(site, 0)).status).toBe(429)
  w.advance(30_001)
  expect((await post(site, 0)).status).toBe(200)
})

test.each([
  ['one IPv4 address', (_i: number) => '192.0.2.7'],
  ['one IPv6 network', (i: number) => `2001:db8:7:7::${i + 1}`],
])('F12 7: exactly 10 posts a minute of %s are taken, over all sites and processes', async (_what, address) => {
  const sites = [site, ...(await Promise.all(Array.from({ length: 6 }, () => makeFormSite(w, owner))))]
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => post(sites[i % 7] ?? site, i, { address: address(i) })))
  expect([count(answers, 200), count(answers, 429)]).toEqual([10, 30])
  expect((await Promise.all(sites.map(({ id }) => stored(id)))).flat()).toHaveLength(10)
  expect((await post(site, 0)).status).toBe(200)
  w.advance(61_000)
  expect((await post(site, 0, { address: address(0) })).status).toBe(200)
})

test('F12: a post that is stored is answered with 200, although old rates cannot be deleted', async () => {
  await sql`create function no_deletion() returns trigger language plpgsql as
    $$ begin raise exception 'old rates cannot be deleted'; end $$`.execute(w.db)
  await sql`create trigger no_deletion before delete on form_rates execute function no_deletion()`.execute(w.db)
  // where deletions were left to chance, each post has one
  const chance = vi.spyOn(Math, 'random').mockReturnValue(0)
  const { status } = await post(site, 0)
  chance.mockRestore()
  await sql`drop trigger no_deletion on form_rates`.execute(w.db)
  expect([status, (await stored()).length]).toEqual([200, 1])
})

test('F12: rates that limit nothing any more are deleted by the hourly clean-up', async () => {
  await post(site, 0)
  const kept = () => w.db.selectFrom('form_rates').select('key').where('key', '=', `site:${site.id}`).execute()
  await deleteExpired(w.db, w.clock())
  expect(await kept()).toHaveLength(1)
  await deleteExpired(w.db, new Date(w.clock().getTime() + 60_001))
  expect(await kept()).toEqual([])
})

test('an address that is refused takes nothing from the rate of the site', async () => {
  const address = newAddress()
  for (let i = 0; i < 40; i++) await post(site, i, { address })
  const answers = await Promise.all(Array.from({ length: 25 }, (_, i) => post(site, i)))
  expect(count(answers, 200)).toBe(20)
})

/** Everything of an answer but its instant. The order of headers means nothing. */
function comparable({ status, headers, body }: Answer) {
  const kept = [...headers].filter(([name]) => name !== 'date')
  const retryAfter = Number(headers.get('retry-after'))
  return {
    status,
    headers: kept.filter(([name]) => name !== 'retry-after').toSorted(),
    body,
    isMinute: retryAfter > 50 && retryAfter <= 60,
  }
}

const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const refusals: [string, PostOptions][] = [
  ['JSON', {}],
  ['an English page', { accept: html, headers: { 'accept-language': 'en-GB,en;q=0.9' } }],
  ['a Russian page', { accept: html, headers: { 'accept-language': 'ru-RU,ru;q=0.9' } }],
]
test.each(refusals)('F12 7: a blocked address gets the same refusal again, as %s', async (_what, options) => {
  const address = newAddress()
  for (let i = 0; i < 10; i++) expect((await site.post({ i }, { address })).status).toBe(200)
  const first = comparable(await site.post({}, { ...options, address }))
  expect(first).toMatchObject({ status: 429, isMinute: true })
  // PostgreSQL has decided the first, and the process remembers it for the second
  expect(comparable(await site.post({}, { ...options, address }))).toEqual(first)
})

test('F12 7: a blocked site refuses the same way again', async () => {
  for (let i = 0; i < 30; i++) expect((await site.post({ i })).status).toBe(200)
  const first = comparable(await site.post({}))
  expect(first).toMatchObject({ status: 429, isMinute: true, body: { message: expect.stringContaining('this site') } })
  expect(comparable(await site.post({}))).toEqual(first)
})

test('Z03: posts of a blocked address are counted as requests of the form endpoint', async () => {
  const address = newAddress()
  for (let i = 0; i < 11; i++) await site.post({ i }, { address })
  const refused = async () => {
    const { body } = await w.call('GET /metrics', { key: operatorToken })
    return Number(
      /^plinth_http_request_duration_seconds_count\{route="POST \/f\/\{site_id\}",status="429"\} (\d+)$/m.exec(body)?.[1],
    )
  }
  const before = await refused()
  for (let i = 0; i < 5; i++) await site.post({ i }, { address })
  expect(await refused()).toBe(before + 5)
})
