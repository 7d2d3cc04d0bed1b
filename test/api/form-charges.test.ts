import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, newAddress } from './form-site.ts'

// What concurrent submissions are charged to: the quota of a month is shared out to several counters.

const plans = { ...defaultPlans, business: { ...defaultPlans.business, forms_per_month: 150 } }

let w: World
beforeAll(async () => {
  w = await world({ worker: false, plans })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const makeSites = (project: TestProject, count: number) =>
  Promise.all(Array.from({ length: count }, () => makeFormSite(w, project)))
const overview = async (project: TestProject) => (await w.call('GET /api/v1/forms/overview', { key: project.key })).body
const changePlan = (project: TestProject, plan: string) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { plan } })
const storedOf = (project: TestProject) =>
  w.db.selectFrom('form_submissions').selectAll().where('project_id', '=', project.id).execute()

/** Twenty posts to each site, all at once, to two processes of the api. A post that a busy server refuses is repeated. */
async function postTwenty(sites: readonly FormSite[], requestId = (_n: number): string => crypto.randomUUID()): Promise<void> {
  const second = await w.openSecondApi()
  const postOne = async (site: FormSite, n: number) => {
    const body = { n, _request_id: requestId(n) }
    const address = newAddress()
    for (;;) {
      const { status } = await site.post(body, { address, base: n % 2 === 0 ? second : w.base })
      if (status === 200) return
      expect(status).toBe(503)
    }
  }
  await Promise.all(sites.flatMap((site) => Array.from({ length: 20 }, (_, n) => postOne(site, n))))
}

test('of 200 posts at once, of which some are repeated, each is charged and counted once', async () => {
  const project = await w.project('business')
  const sites = await makeSites(project, 10)
  const ids = Array.from({ length: 16 }, () => crypto.randomUUID())
  await postTwenty(sites, (n) => ids[n % 16] ?? '')
  const rows = await storedOf(project)
  expect([rows.length, rows.filter(({ charged }) => charged).length]).toEqual([160, 150])
  expect(
    rows
      .map(({ hidden_no }) => hidden_no ?? 0)
      .filter(Boolean)
      .sort((a, b) => a - b),
  ).toEqual(Array.from({ length: 10 }, (_, i) => i + 1))
  expect(await overview(project)).toMatchObject({ used: 150, hidden_count: 10, counters: { verified: 150, hidden: 10 } })
})

test('a share of the quota is worth nothing after a change of the plan and back', async () => {
  const project = await w.project('business')
  await postTwenty(await makeSites(project, 3))
  await changePlan(project, 'enterprise')
  await postTwenty(await makeSites(project, 5))
  await changePlan(project, 'business')
  await postTwenty(await makeSites(project, 1))
  expect(await overview(project)).toMatchObject({ used: 160, quota: 150, hidden_count: 20 })
})

test('a site in the trash is not charged', async () => {
  const project = await w.project('business')
  const site = await makeFormSite(w, project)
  const posts = Array.from({ length: 20 }, (_, n) => site.post({ n }))
  const trashed = w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
  const statuses = (await Promise.all(posts)).map(({ status }) => status)
  expect((await trashed).status).toBe(200)
  const accepted = statuses.filter((status) => status === 200).length
  expect(await storedOf(project)).toHaveLength(accepted)
  expect((await overview(project)).used).toBe(accepted)
})
