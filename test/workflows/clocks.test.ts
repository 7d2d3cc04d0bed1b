import { afterAll, beforeAll, expect, test } from 'vitest'
import { reconcile } from '../../workflows/reconciler.ts'
import { deployFiles, makeSite, page, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// Check 27: the clock of api and activities is wrong while Temporal's and PostgreSQL's are right.

const hourMs = 3_600_000

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world()
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const call = (endpoint: string, json?: object) => w.call(endpoint, { key: owner.key, json })

/** With the clock wrong by so much: what the reconciler starts, and what the work itself then does. */
async function withClock<T>(wrongByMs: number, work: () => Promise<T>): Promise<T> {
  w.advance(wrongByMs)
  try {
    const options = { stalledAfterMs: 0, dueWithinMs: hourMs, checkIntervalMs: 10_000, retryPauseMs: 60_000 }
    await reconcile(w, w.workflows, new Date(Date.now() + wrongByMs), options)
    return await work()
  } finally {
    w.advance(-wrongByMs)
  }
}

test.each([
  ['25 h ahead', 25 * hourMs],
  ['1 h behind', -hourMs],
  ['25 h behind', -25 * hourMs],
])('27: a clock %s removes no site from the trash early', async (_what, wrongByMs) => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('kept')])
  const trashed = await call(`DELETE /api/v1/sites/${site.id}`)
  const workflowId = `trash:${site.id}:${Date.parse(trashed.body.deletion_scheduled_at)}`
  await expect.poll(async () => (await w.workflows.describe(workflowId).catch(() => undefined))?.status).toBe('RUNNING')
  const restored = await withClock(wrongByMs, () => call(`POST /api/v1/sites/${site.id}/restore`))
  expect([restored.status, restored.body.active_deploy_id === null]).toEqual([200, false])
})

test.each([
  ['25 h ahead', 25 * hourMs],
  ['1 h behind', -hourMs],
  ['25 h behind', -25 * hourMs],
])('27: a clock %s switches no subdomain early', async (_what, wrongByMs) => {
  const site = await makeSite(w, owner)
  const wanted = randomName()
  const change = await call(`POST /api/v1/sites/${site.id}/subdomain-change`, { subdomain: wanted })
  expect(change.status).toBe(200)
  const read = () => call(`GET /api/v1/sites/${site.id}`)
  const seen = (await withClock(wrongByMs, read)).body
  expect([seen.subdomain, seen.pending_subdomain?.subdomain]).toEqual([site.subdomain, wanted])
  expect((await call(`DELETE /api/v1/sites/${site.id}/subdomain-change`)).status).toBe(200)
})

test('27: what is trashed or changed by an api that is 25 h behind is due as late as by any other', async () => {
  const [site, moving] = [await makeSite(w, owner), await makeSite(w, owner)]
  w.advance(-25 * hourMs)
  let due: string[]
  try {
    const trashed = await call(`DELETE /api/v1/sites/${site.id}`)
    const change = await call(`POST /api/v1/sites/${moving.id}/subdomain-change`, { subdomain: randomName() })
    due = [trashed.body.deletion_scheduled_at, change.body.switch_at]
  } finally {
    w.advance(25 * hourMs)
  }
  for (const instant of due) expect(Math.abs(Date.parse(instant) - Date.now() - 24 * hourMs)).toBeLessThan(hourMs / 2)
  expect((await call(`POST /api/v1/sites/${site.id}/restore`)).status).toBe(200)
  expect((await call(`DELETE /api/v1/sites/${moving.id}/subdomain-change`)).status).toBe(200)
})
