import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Answer, type TestProject, type World, world } from '../world.ts'
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

test('an address that is refused takes nothing from the rate of the site', async () => {
  const address = newAddress()
  for (let i = 0; i < 40; i++) await post(site, i, { address })
  const answers = await Promise.all(Array.from({ length: 25 }, (_, i) => post(site, i)))
  expect(count(answers, 200)).toBe(20)
})
