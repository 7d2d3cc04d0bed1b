import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxDomainAddsPerHour, maxLookUpsPerPause, quarantinePeriodMs } from '../../core/limits.ts'
import { defaultPlans, type PlanName } from '../../core/plans.ts'
import { openDomainLookUp } from '../../services/domains/look-up.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { createDomainActivities } from '../../workflows/activities/domains.ts'
import { makeSite, randomName } from '../make.ts'
import { type Answer, type TestProject, type World, world } from '../world.ts'
import { startZone, type Zone } from '../zone.ts'

// What a project may hold of the names that all projects share (addendum E38, "Claims").

const dayMs = 86_400_000
const quota = 1
const limit = 3 * quota + 10

let w: World
beforeAll(async () => {
  const plans = { ...defaultPlans, free: { ...defaultPlans.free, sites: quota }, start: { ...defaultPlans.start, sites: 2 } }
  w = await world({ plans, env: { PLINTH_TRASH_PERIOD: '1ms' } })
})
afterAll(() => w?.[Symbol.asyncDispose]())

describe('the subdomains that a project holds', () => {
  const create = ({ key }: TestProject, subdomain = randomName()) =>
    w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain } })
  const trash = ({ key }: TestProject, id: string) => w.call(`DELETE /api/v1/sites/${id}`, { key })
  const change = ({ key }: TestProject, id: string, subdomain = randomName()) =>
    w.call(`POST /api/v1/sites/${id}/subdomain-change`, { key, json: { subdomain } })

  /** Creates sites and deletes each at once, until one is refused or there are `most`; answers the names and the refusal. */
  async function createAndDelete(project: TestProject, most: number): Promise<{ names: string[]; refusal?: Answer }> {
    const names: string[] = []
    while (names.length < most) {
      const made = await create(project)
      if (made.status !== 200) return { names, refusal: made }
      names.push(made.body.subdomain)
      await trash(project, made.body.id)
    }
    return { names }
  }

  async function removed(project: TestProject): Promise<void> {
    const left = async () => (await w.call('GET /api/v1/trashed-sites', { key: project.key })).body.length
    await expect.poll(left, { timeout: 60_000, interval: 100 }).toBe(0)
  }

  test('E38: creating and deleting stops at 3 times the quota of sites and 10, with 409 and the time of the next free one', async () => {
    const project = await w.project('free')
    const { names, refusal } = await createAndDelete(project, limit + 1)
    expect([names.length, refusal?.status]).toEqual([limit, 409])
    expect(refusal?.body.message).toMatch(/holds 13 subdomains.*Free plan allows 13.*wait until \d+ \w+ 20\d\d, \d\d:\d\d UTC/)
  })

  test('E38: the project may take a name of its own again while it holds as many as it may', async () => {
    const project = await w.project('free')
    const { names } = await createAndDelete(project, limit)
    await removed(project)
    expect((await create(project)).status).toBe(409)
    expect((await create(project, names[3])).status).toBe(200)
  })

  test('E38: a change of the subdomain is refused too, and cancelling one gives its name back', async () => {
    const project = await w.project('free')
    const site = (await create(project)).body
    expect((await change(project, site.id)).status).toBe(200)
    await w.call(`DELETE /api/v1/sites/${site.id}/subdomain-change`, { key: project.key })
    await w.db
      .insertInto('subdomains')
      .values(
        Array.from({ length: limit - 1 }, () => ({
          subdomain: randomName(),
          site_id: site.id,
          project_id: project.id,
          kind: 'former' as const,
          held_until: new Date(Date.now() + 400 * dayMs),
        })),
      )
      .execute()
    const refused = await change(project, site.id)
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('holds 13 subdomains')])
  })

  test('E38: a site comes back out of the trash although the project holds as many names as it may', async () => {
    await using slow = await world({ plans: w.config.plans })
    const patient = await slow.project('free')
    const made: string[] = []
    for (let count = 0; count < limit; count++) {
      const json = { name: 'x', subdomain: randomName() }
      const { body } = await slow.call('POST /api/v1/sites', { key: patient.key, json })
      made.push(body.id)
      await slow.call(`DELETE /api/v1/sites/${body.id}`, { key: patient.key })
    }
    expect((await slow.call(`POST /api/v1/sites/${made[0]}/restore`, { key: patient.key })).status).toBe(200)
  })

  test('E38: of parallel creations none goes beyond the limit', async () => {
    const project = await w.project('start')
    const most = 3 * 2 + 10
    await createAndDelete(project, most - 2)
    await removed(project)
    const answers = await Promise.all(Array.from({ length: 8 }, () => create(project)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2)
  })

  test('what was kept of names whose time is over is deleted, and nothing else', async () => {
    const project = await w.project('free')
    const { names } = await createAndDelete(project, 2)
    await removed(project)
    const live = (await create(project)).body.subdomain
    const held = async () =>
      (await w.db.selectFrom('subdomains').select('subdomain').where('project_id', '=', project.id).execute()).map(
        (row) => row.subdomain,
      )
    const farAhead = new Date(Date.now() + 1000 * dayMs)
    expect((await held()).sort()).toEqual([...names, live].sort())
    await deleteExpired(w.db, farAhead)
    expect(await held()).toEqual([live])
  })

  // the last one: Temporal does not follow the clock that it moves
  test('E38: names of removed sites stay charged until their quarantine is over, then they are free', async () => {
    const project = await w.project('free')
    const { names } = await createAndDelete(project, limit)
    await removed(project)
    expect((await create(project)).status).toBe(409)
    w.advance(quarantinePeriodMs + dayMs)
    const other = await w.project('free')
    expect((await create(other, names[0])).status).toBe(200)
    expect((await create(project)).status).toBe(200)
  })
})

describe('the domains that a project claims', () => {
  const newName = () => `${randomName('d')}.example.com`
  let zone: Zone
  let v: World
  let shiftMs = 0
  const now = () => new Date(Date.now() + shiftMs)
  const advance = (ms: number) => {
    shiftMs += ms
    v.advance(ms)
  }
  beforeAll(async () => {
    zone = await startZone()
    v = await world({ worker: false, env: { PLINTH_DNS_SERVERS: zone.address } })
  })
  afterAll(async () => {
    await v?.[Symbol.asyncDispose]()
    await zone?.[Symbol.asyncDispose]()
  })

  /** A project with a site, and what it does with domains. */
  async function claimant(plan: PlanName = 'enterprise') {
    const project = await v.project(plan)
    const site = await makeSite(v, project)
    const { key } = project
    const add = (domain: string) => v.call(`POST /api/v1/sites/${site.id}/domains`, { key, json: { domain } })
    const remove = (id: string) => v.call(`DELETE /api/v1/domains/${id}`, { key })
    const verify = (id: string) => v.call(`POST /api/v1/domains/${id}/verify`, { key })
    const addAgain = async (id: string, domain: string) => {
      await remove(id)
      return (await add(domain)).body
    }
    return { ...project, site, add, remove, verify, addAgain }
  }

  const fill = (project_id: string, kind: string, count: number, ageMs: number) =>
    v.db
      .insertInto('allowances')
      .values({
        project_id,
        kind,
        taken_at: sql<Date[]>`array_fill(${new Date(now().getTime() - ageMs)}::timestamptz, array[${count}::int])`,
      })
      .execute()

  test('E14 E38: deleting and adding again does not renew a claim: after 7 days another project has the domain', async () => {
    const [squatter, owner] = [await claimant(), await claimant()]
    const domain = newName()
    const { body } = await squatter.add(domain)
    advance(4 * dayMs)
    await squatter.addAgain(body.id, domain)
    expect((await owner.add(domain)).status).toBe(409)
    advance(4 * dayMs)
    expect((await owner.add(domain)).status).toBe(200)
  })

  test('E38: a claim that was deleted for 30 days begins anew', async () => {
    const [first, other] = [await claimant(), await claimant()]
    const domain = newName()
    const { body } = await first.add(domain)
    advance(8 * dayMs)
    await first.remove(body.id)
    advance(30 * dayMs)
    expect((await first.add(domain)).status).toBe(200)
    expect((await other.add(domain)).status).toBe(409)
  })

  test('E38: a domain that was proved and deleted is claimed anew', async () => {
    const [first, other] = [await claimant(), await claimant()]
    const domain = newName()
    const { body } = await first.add(domain)
    zone.set('TXT', body.txt.name, body.txt.value)
    expect((await first.verify(body.id)).body.verified).toBe(true)
    advance(8 * dayMs)
    await first.addAgain(body.id, domain)
    expect((await other.add(domain)).status).toBe(409)
  })

  test('N05: deleting and adding again does not go around the pause between look-ups', async () => {
    const project = await claimant()
    const domain = newName()
    let { id, txt } = (await project.add(domain)).body
    expect((await project.verify(id)).status).toBe(200)
    for (let round = 0; round < 5; round++) {
      id = (await project.addAgain(id, domain)).id
      expect((await project.verify(id)).status).toBe(429)
    }
    expect(zone.asked.filter((asked) => asked === `udp ${txt.name}`)).toHaveLength(1)
  })

  test('E38: 3 times the quota of domains and 10 within 30 days, then 409 with the time of the next free one', async () => {
    const project = await claimant('free')
    const most = 3 * (defaultPlans.free.domains ?? 0) + 10
    let last = { id: '', domain: '' }
    for (let count = 0; count < most; count++) {
      if (last.id) await project.remove(last.id)
      last = (await project.add(newName())).body
    }
    await project.remove(last.id)
    const refused = await project.add(newName())
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringMatching(/holds 13 domains.*wait until .* UTC/)])
    expect((await project.add(last.domain)).status).toBe(200)
  })

  test('a project adds 200 domains an hour, then 429 says when the next can be added', async () => {
    const project = await claimant()
    await fill(project.id, 'domain_adds', maxDomainAddsPerHour - 1, 1_800_000)
    expect((await project.add(newName())).status).toBe(200)
    const refused = await project.add(newName())
    expect([refused.status, Number(refused.headers.get('retry-after'))]).toEqual([429, expect.closeTo(1800, -2)])
  })

  test('of the domains of a project 20 are looked up within 10 s, those of another project all the same', async () => {
    const [many, other] = [await claimant(), await claimant()]
    const ids: string[] = []
    for (let count = 0; count < maxLookUpsPerPause + 3; count++) ids.push((await many.add(newName())).body.id)
    const answers = await Promise.all(ids.map((id) => many.verify(id)))
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(maxLookUpsPerPause).fill(200), 429, 429, 429])
    const refused = answers.findIndex(({ status }) => status === 429)
    const retryAfter = Number(answers[refused]?.headers.get('retry-after'))
    expect(retryAfter).toBeGreaterThanOrEqual(1)
    expect(retryAfter).toBeLessThanOrEqual(10)
    expect((await other.verify((await other.add(newName())).body.id)).status).toBe(200)
    // what was refused did not count as a look-up of the domain
    advance(retryAfter * 1000)
    expect((await many.verify(ids[refused] ?? '')).status).toBe(200)
  })

  test('the platform itself looks up no more of them: its turn comes later, and no name server is asked', async () => {
    const project = await claimant()
    const { id, txt } = (await project.add(newName())).body
    const { checkDomain } = createDomainActivities({ ...v, lookUpDomain: openDomainLookUp(v.config), clock: now })
    await v.db.deleteFrom('allowances').where('project_id', '=', project.id).execute()
    await fill(project.id, 'domain_look_ups', maxLookUpsPerPause, 0)
    const check = { domain_id: id, attempt: 1, look: true, pause_ms: 1000 }
    await expect(checkDomain(check)).rejects.toMatchObject({ category: 'BENIGN', nextRetryDelay: expect.any(Number) })
    expect(zone.asked).not.toContain(`udp ${txt.name}`)
    await v.db.deleteFrom('allowances').where('project_id', '=', project.id).execute()
    await checkDomain(check)
    expect(zone.asked).toContain(`udp ${txt.name}`)
  })
})
