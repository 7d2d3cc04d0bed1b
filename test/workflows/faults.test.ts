import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { retryDeploy } from '../../services/deploys/runs.ts'
import { transact } from '../../services/transact.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

const reconciling = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 10_000, retryPauseMs: 60_000 }

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ ownTemporal: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const send = async (siteId: string) => {
  const startedAt = performance.now()
  const answer = await w.call(`POST /api/v1/sites/${siteId}/deploy-files`, { key: owner.key, json: { files: [page('x')] } })
  return { ...answer, ms: performance.now() - startedAt }
}

test('with Temporal away a deploy is answered as queued at once and goes live when it is back', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('before')])
  await w.killTemporal()
  const first = await send(site.id)
  const second = await send(site.id)
  expect([first.status, first.body.status, second.status]).toEqual([200, 'queued', 200])
  // starting a workflow would take 20 s; of a few answers a busy machine holds up all but one
  let last = second
  const soonest = async () => {
    const earlier = await send(site.id)
    last = await send(site.id)
    return Math.min(earlier.ms, last.ms)
  }
  await expect.poll(soonest).toBeLessThan(300)
  await w.startTemporal({ forget: false })
  expect((await w.ended(last.body.id, owner.key)).status).toBe('active')
  for (const { body } of [first, second]) expect(['active', 'superseded']).toContain((await w.ended(body.id, owner.key)).status)
})

test('a deploy whose workflow Temporal has lost is started again as its next attempt and goes live once', async () => {
  const site = await makeSite(w, owner)
  const { id } = await deployFiles(w, owner, site.id, [page('x')])
  await w.db.updateTable('deploys').set({ status: 'queued', run_id: null, activated_at: null }).where('id', '=', id).execute()
  await w.killTemporal()
  await w.startTemporal({ forget: true })
  expect(await reconcile(w, w.workflows, new Date(), reconciling)).toEqual([`deploy:${id}:1`])
  expect((await w.ended(id, owner.key)).status).toBe('active')
  const row = await w.db.selectFrom('deploys').select(['attempt', 'status']).where('id', '=', id).executeTakeFirst()
  expect(row).toEqual({ attempt: 2, status: 'active' })
  const actives = await w.db
    .selectFrom('deploys')
    .select('id')
    .where('site_id', '=', site.id)
    .where('status', '=', 'active')
    .execute()
  expect(actives).toEqual([{ id }])
})

test('T04: a signal waits for the start of its workflow: of a site that was restored at once none stays behind', async () => {
  const site = await makeSite(w, owner)
  await w.killTemporal()
  const trashed = await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  expect((await w.call(`POST /api/v1/sites/${site.id}/restore`, { key: owner.key })).status).toBe(200)
  await w.startTemporal({ forget: false })
  const id = `trash:${site.id}:${Date.parse(trashed.body.deletion_scheduled_at)}`
  await expect.poll(async () => (await w.workflows.describe(id).catch(() => undefined))?.status).toBe('COMPLETED')
})

test('the reconciler does nothing while Temporal does not answer, and leaves running and ended deploys alone', async () => {
  const site = await makeSite(w, owner)
  const { id } = await deployFiles(w, owner, site.id, [page('x')])
  expect(await reconcile(w, w.workflows, new Date(), reconciling)).toEqual([])
  await w.db.updateTable('deploys').set({ status: 'queued', run_id: null }).where('id', '=', id).execute()
  await w.killTemporal()
  await expect(reconcile(w, w.workflows, new Date(), reconciling)).rejects.toThrow()
  await w.startTemporal({ forget: false })
  expect(await transact(w, (tx) => retryDeploy(tx, id, 7))).toBe(false)
})

test('PostgreSQL away is a 503 with a message within two seconds, and nothing has to be restarted when it is back', async () => {
  const { url } = w.database
  await w.database.forbidConnections(true)
  const startedAt = performance.now()
  const answer = await w.call('GET /api/v1/whoami', { key: owner.key })
  expect([answer.status, Object.keys(answer.body), answer.headers.get('retry-after')]).toEqual([503, ['message'], '5'])
  expect(performance.now() - startedAt).toBeLessThan(2500)
  await w.database.forbidConnections(false)
  expect((await w.call('GET /api/v1/whoami', { key: owner.key })).status).toBe(200)
  expect(url).toContain('test_')
})

test('23: a PostgreSQL whose volume is full is a 503 with a message, and nothing of the request stays', async () => {
  // the error that a server without room gives, at the moment of the write
  await sql`create function no_room() returns trigger language plpgsql as
    $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`.execute(w.db)
  await sql`create trigger no_room before insert on sites execute function no_room()`.execute(w.db)
  const json = { name: 'x', subdomain: 'no-room-left' }
  const answer = await w.call('POST /api/v1/sites', { key: owner.key, json })
  expect([answer.status, Object.keys(answer.body), answer.headers.get('retry-after')]).toEqual([503, ['message'], '5'])
  await sql`drop trigger no_room on sites`.execute(w.db)
  expect((await w.call('POST /api/v1/sites', { key: owner.key, json })).status).toBe(200)
})
