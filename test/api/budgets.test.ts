import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AccessMode } from '../../core/access.ts'
import { gatePaths } from '../../core/visits.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type ClosedSite, makeClosedSite, password } from './closed-site.ts'
import { challengeOf, newEmail } from './member-site.ts'

// The rows of the table "Who can use up what, and who suffers" in docs/security.md: each attack, and a visitor who gets in during it.

const minuteMs = 60_000
let w: World
let mail: Awaited<ReturnType<typeof startMailServer>>
let owner: TestProject
beforeAll(async () => {
  mail = await startMailServer()
  w = await world({ env: { PLINTH_SMTP_URL: mail.url } })
  owner = await w.project('enterprise')
})
afterAll(async () => {
  await w?.[Symbol.asyncDispose]()
  await mail?.[Symbol.asyncDispose]()
})

const make = (mode: AccessMode, project = owner) => makeClosedSite(w, project, mode)
async function list({ id: site_id, project_id }: ClosedSite, email = newEmail()): Promise<string> {
  await w.db.insertInto('access_emails').values({ site_id, project_id, email, created_at: new Date() }).execute()
  return email
}
const ask = (site: ClosedSite, email: string, address: string) => site.post(gatePaths.email, { email, to: '/' }, { address })
const enter = (site: ClosedSite, email: string, challenge: string, code: string, address: string) =>
  site.post(gatePaths.code, { email, challenge, code, to: '/' }, { address })
const login = (site: ClosedSite, text: string, address: string) =>
  site.post(gatePaths.password, { password: text, to: '/' }, { address })
const mailsTo = (email: string) => mail.received.filter(({ envelope }) => envelope.to.includes(email))
const newestCode = (email: string) => /\b\d{6}\b/.exec(mailsTo(email).at(-1)?.text ?? '')?.[0] ?? ''

/** Waits until the workflows have decided about all codes of the sites. */
const decided = (...sites: readonly ClosedSite[]) =>
  expect
    .poll(
      () =>
        w.db
          .selectFrom('access_codes')
          .select('email')
          .where('sealed_code', 'is not', null)
          .where(
            'site_id',
            'in',
            sites.map(({ id }) => id),
          )
          .execute(),
      { timeout: 120_000, interval: 100 },
    )
    .toEqual([])

/** Asks for a code and enters it. */
async function loginByCode(site: ClosedSite, email: string, address: string): Promise<number> {
  const challenge = challengeOf(await ask(site, email, address))
  await decided(site)
  return (await enter(site, email, challenge, newestCode(email), address)).status
}

/** Every network in a /24 of its own. */
const networks = (first: number, count: number) => Array.from({ length: count }, (_, i) => `198.${first}.${i}.7`)

test('300 invented addresses from 15 networks keep no listed address from its code', async () => {
  const site = await make('email')
  const emails = await Promise.all(Array.from({ length: 5 }, () => list(site)))
  const attack = Promise.all(
    networks(1, 15).map(async (address) => {
      const statuses: number[] = []
      for (let i = 0; i < 20; i++) statuses.push((await ask(site, newEmail(), address)).status)
      return statuses
    }),
  )
  const during = await Promise.all(emails.map((email, i) => loginByCode(site, email, `203.1.${i}.7`)))
  expect([...new Set((await attack).flat())]).toEqual([401])
  expect(during).toEqual([303, 303, 303, 303, 303])
  // nothing of it was left for the hour
  expect(await loginByCode(site, await list(site), '203.1.9.7')).toBe(303)
}, 240_000)

test('requests at sites of an attacker, who lists a person there, keep nobody from the code of another site', async () => {
  const site = await make('email')
  const email = await list(site)
  const attacker = await w.project('enterprise')
  const own = await Promise.all(Array.from({ length: 12 }, () => make('email', attacker)))
  await Promise.all(own.map((one) => list(one, email)))
  await Promise.all(own.map((one, i) => ask(one, email, `198.2.${i}.7`)))
  await decided(...own)
  const flooded = mailsTo(email).length
  // five of the mailbox, and the reserve of each of the sites, at most twelve of one project
  expect([flooded >= 5, flooded <= 17]).toEqual([true, true])
  expect(await loginByCode(site, email, '203.2.0.7')).toBe(303)
})

test('60 spellings of one mailbox at sites with members get as many codes as the mailbox', async () => {
  const sites = await Promise.all(Array.from({ length: 6 }, () => make('members')))
  const name = randomName('eve')
  const spelled = (i: number) => `${name}+${i}@example.com`
  await Promise.all(Array.from({ length: 60 }, (_, i) => ask(sites[i % 6] as ClosedSite, spelled(i), networks(3, 60)[i] ?? '')))
  await decided(...sites)
  const sent = mail.received.filter(({ envelope }) => envelope.to[0]?.startsWith(`${name}+`))
  expect(sent).toHaveLength(5)
})

test('registrations that use up the emails of a site keep no member from a code', async () => {
  const site = await make('members')
  const taken_at = Array.from({ length: 300 }, () => new Date(w.clock()))
  await w.db
    .insertInto('access_rates')
    .values({ key: `codes:site:${site.id}`, taken_at })
    .execute()
  const email = newEmail()
  const member = { site_id: site.id, project_id: owner.id, email, status: 'active', registered_at: new Date() } as const
  await w.db.insertInto('members').values(member).execute()
  await ask(site, newEmail(), '198.4.0.7')
  expect(await loginByCode(site, email, '203.4.0.7')).toBe(303)
})

test('E19: a stranger who asks for codes of an address all the time keeps its owner out at no time', async () => {
  const site = await make('email')
  const email = await list(site)
  const outcomes: number[] = []
  for (let i = 0; i < 14; i++) {
    w.advance(5 * minuteMs)
    await ask(site, email, `198.5.${i}.7`)
    await decided(site)
    // every ten minutes, from another network each time, so that none is known
    if (i % 2 === 0) outcomes.push(await loginByCode(site, email, `203.5.${i}.7`))
  }
  expect(outcomes).toEqual([303, 303, 303, 303, 303, 303, 303])
  expect(mailsTo(email).length).toBeLessThanOrEqual(14)
}, 120_000)

test('a person gets a code from a network of an earlier login, although strangers have used up everything else', async () => {
  const site = await make('email')
  const email = await list(site)
  expect(await loginByCode(site, email, '203.6.0.7')).toBe(303)
  for (let i = 0; i < 8; i++) {
    w.advance(61_000)
    await ask(site, email, `198.6.${i}.7`)
    await decided(site)
  }
  const before = mailsTo(email).length
  w.advance(61_000)
  await ask(site, email, '198.6.99.7')
  await decided(site)
  expect(mailsTo(email)).toHaveLength(before)
  expect(await loginByCode(site, email, '203.6.0.8')).toBe(303)
  expect(mailsTo(email)).toHaveLength(before + 1)
})

test('five wrong codes on a page of a stranger leave the five tries of the page that has asked', async () => {
  const site = await make('email')
  const email = await list(site)
  const foreign = challengeOf(await ask(site, email, '198.7.0.7'))
  await decided(site)
  w.advance(61_000)
  const own = challengeOf(await ask(site, email, '203.7.0.7'))
  await decided(site)
  const code = newestCode(email)
  for (let i = 0; i < 6; i++) expect((await enter(site, email, foreign, 'wrong', '198.7.0.7')).status).toBe(401)
  // the stranger's page and all other pages together have used up theirs
  expect((await enter(site, email, foreign, code, '198.7.0.7')).status).toBe(401)
  expect((await enter(site, email, own, code, '203.7.0.7')).status).toBe(303)
})

test('E36: 210 wrong passwords and six a second after them keep nobody from the right one', async () => {
  const site = await make('password')
  const attackers = networks(8, 21)
  const flood = async (i: number) => (await login(site, 'wrong', attackers[i % 21] ?? '')).status
  await Promise.all(
    attackers.map(async (_, i) => {
      for (let n = 0; n < 10; n++) await flood(i)
    }),
  )
  const [during, delayed] = await Promise.all([
    Promise.all(Array.from({ length: 5 }, async (_, i) => (await login(site, password, `203.8.${i}.7`)).status)),
    Promise.all(Array.from({ length: 30 }, (_, i) => flood(i))),
  ])
  expect(during).toEqual([303, 303, 303, 303, 303])
  expect(delayed.filter((status) => status === 429).length).toBeGreaterThanOrEqual(28)
})

test('E36: who has entered with the password before gets in from there, when the reserve of a flooded site is used up', async () => {
  const site = await make('password')
  expect((await login(site, password, '203.9.0.7')).status).toBe(303)
  const used = (key: string, count: number) => ({ key, taken_at: Array.from({ length: count }, () => new Date(w.clock())) })
  await w.db
    .insertInto('access_rates')
    .values([used(`failures:${site.id}`, 200), used(`reserve:${site.id}`, 300), used(`pause:failures:${site.id}`, 1)])
    .onConflict((conflict) => conflict.column('key').doUpdateSet((eb) => ({ taken_at: eb.ref('excluded.taken_at') })))
    .execute()
  expect((await login(site, password, '203.9.1.7')).status).toBe(429)
  expect((await login(site, password, '203.9.0.8')).status).toBe(303)
})

test('E36: the guesses of networks from which nobody has entered are bounded over a site, however many they are', async () => {
  const site = await make('password')
  const used = (key: string, count: number) => ({ key, taken_at: Array.from({ length: count }, () => new Date(w.clock())) })
  await w.db
    .insertInto('access_rates')
    .values([used(`failures:${site.id}`, 199), used(`reserve:${site.id}`, 298)])
    .execute()
  const fresh = Array.from({ length: 30 }, (_, i) => `2001:db8:${i + 1}:1::7`)
  const statuses = await Promise.all(fresh.map(async (address) => (await login(site, 'wrong', address)).status))
  // the last of the site, two of the reserve, and the one of the pause
  expect(statuses.filter((status) => status === 401)).toHaveLength(4)
})

test('E36: a customer who changes the /64 within a /56 or /48 gets no more guesses', async () => {
  const site = await make('password')
  const from = async (address: string) => (await login(site, 'wrong', address)).status
  const inCustomer = await Promise.all(
    Array.from({ length: 60 }, (_, i) => from(`2001:db8:a1:5${(i % 256).toString(16).padStart(2, '0')}::7`)),
  )
  expect(inCustomer.filter((status) => status === 401)).toHaveLength(31)
  const inOrganisation = await Promise.all(
    Array.from({ length: 60 }, (_, i) => from(`2001:db8:a1:${(0x1000 + 256 * i).toString(16)}::7`)),
  )
  expect(inOrganisation.filter((status) => status === 401)).toHaveLength(30)
})
