import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { deployFiles, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// What is counted by day where it happens: submissions of forms and publishes.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world()
})
afterAll(() => w?.[Symbol.asyncDispose]())
// the plan has ten submissions a month
beforeEach(async () => {
  owner = await w.project('free')
  site = await makeFormSite(w, owner)
})

const setClock = (instant: string) => w.advance(Date.parse(instant) - w.clock().getTime())
const change = (json: object) => w.call(`PATCH /operator/v1/projects/${owner.id}`, { key: operatorToken, json })
const activate = (id: string) => w.call(`POST /api/v1/deploys/${id}/activate`, { key: owner.key })
async function post(count: number): Promise<void> {
  for (let n = 1; n <= count; n++) expect((await site.post({ n })).status).toBe(200)
}
async function days(): Promise<Record<string, [submissions: number, publishes: number]>> {
  const rows = await w.db.selectFrom('activity_days').selectAll().where('site_id', '=', site.id).orderBy('day').execute()
  return Object.fromEntries(rows.map((row) => [row.day, [row.form_submissions, row.publishes]]))
}

test('K03 K07: a submission counts on its day in Moscow', async () => {
  setClock('2030-03-01T20:59:00Z')
  await post(2)
  setClock('2030-03-01T21:01:00Z')
  await post(1)
  expect(await days()).toEqual({ '2030-03-01': [2, 0], '2030-03-02': [1, 0] })
})

test('K03: spam, traps and repeated posts do not count', async () => {
  setClock('2030-04-01T12:00:00Z')
  const repeated = { n: 1, _request_id: crypto.randomUUID() }
  for (const body of [repeated, repeated, { n: 2, _hp_x: 'x' }, { n: 3, _submit_time: w.clock().getTime() }])
    await site.post(body)
  const { counters } = (await w.call('GET /api/v1/forms/overview', { key: owner.key })).body
  expect(counters).toMatchObject({ verified: 1, spam: 1 })
  expect(await days()).toEqual({ '2030-04-01': [1, 0] })
})

test('K03 E35: hidden submissions count when they are revealed, on the days on which they came', async () => {
  setClock('2030-05-01T20:59:00Z')
  await post(12)
  setClock('2030-05-01T21:01:00Z')
  await post(3)
  expect(await days()).toEqual({ '2030-05-01': [10, 0] })
  await change({ form_balance_add: 3 })
  expect(await days()).toEqual({ '2030-05-01': [12, 0], '2030-05-02': [1, 0] })
  await change({ plan: 'enterprise' })
  expect(await days()).toEqual({ '2030-05-01': [12, 0], '2030-05-02': [3, 0] })
})

test('K03: every deploy that goes live is a publish, a rollback too', async () => {
  setClock('2030-06-01T12:00:00Z')
  await change({ plan: 'pro' })
  const first = await deployFiles(w, owner, site.id, [page('first')])
  await deployFiles(w, owner, site.id, [page('second')])
  const third = await deployFiles(w, owner, site.id, [page('third')], false)
  expect(await days()).toEqual({ '2030-06-01': [0, 2] })
  for (const id of [third.id, third.id, first.id]) expect((await activate(id)).status).toBe(200)
  expect(await days()).toEqual({ '2030-06-01': [0, 4] })
})
