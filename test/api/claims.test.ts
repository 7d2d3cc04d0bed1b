import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quarantinePeriodMs } from '../../core/limits.ts'
import { defaultPlans } from '../../core/plans.ts'
import { deleteExpired } from '../../infra/db/expired.ts'
import { randomName } from '../make.ts'
import { type Answer, type TestProject, type World, world } from '../world.ts'

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
