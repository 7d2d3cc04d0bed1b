import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { reconcile, startReconciler } from '../../workflows/reconciler.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { refuseReady } from './refuse-ready.ts'
import { openTemporalClient } from './temporal-client.ts'

const soon = { interval: 30, timeout: 60_000 }
const reconciling = { stalledAfterMs: 0, dueWithinMs: 48 * 3_600_000, checkIntervalMs: 10_000, retryPauseMs: 60_000 }
const later = () => new Date(Date.now() + 60_000)

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world()
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** A site in the trash whose workflow is gone. */
async function loseTrash(): Promise<string> {
  await using stack = new AsyncDisposableStack()
  const temporal = await openTemporalClient(w, stack)
  const site = await makeSite(w, owner)
  const { body } = await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  const id = `trash:${site.id}:${Date.parse(body.deletion_scheduled_at)}`
  await expect.poll(async () => (await w.workflows.describe(id))?.status, soon).toBe('RUNNING')
  await temporal.workflow.getHandle(id).terminate()
  return id
}
const statusOf = async (id: string) => (await w.workflows.describe(id))?.status

test('it goes on when PostgreSQL has not told the time at first', async () => {
  const id = await loseTrash()
  let asked = 0
  const clock = () => {
    if (++asked === 1) throw new Error('PostgreSQL has not told the time yet')
    return w.clock()
  }
  await using _ = startReconciler({ ...w, clock }, w.workflows, { ...reconciling, intervalMs: 30 })
  await expect.poll(() => statusOf(id), soon).toBe('RUNNING')
})

test('a search that fails keeps no other search from repairing', async () => {
  const id = await loseTrash()
  // both are searched before the trash
  await sql`alter table domains rename to domains_away`.execute(w.db)
  try {
    await expect(reconcile(w, w.workflows, new Date(), reconciling)).rejects.toThrow(AggregateError)
  } finally {
    await sql`alter table domains_away rename to domains`.execute(w.db)
  }
  await expect.poll(() => statusOf(id), soon).toBe('RUNNING')
})

test('a row that cannot be restarted keeps no other row from being repaired', async () => {
  const ids = [await loseTrash(), await loseTrash(), await loseTrash()]
  await sql`create function refuse_start() returns trigger language plpgsql as
    $$ begin raise exception 'refused' using errcode = 'check_violation'; end $$`.execute(w.db)
  await sql`create trigger refuse_start before insert on workflow_starts for each row
    when (new.workflow_id = ${sql.lit(ids[0])}) execute function refuse_start()`.execute(w.db)
  try {
    await expect(reconcile(w, w.workflows, new Date(), reconciling)).rejects.toThrow(AggregateError)
  } finally {
    await sql`drop trigger refuse_start on workflow_starts`.execute(w.db)
  }
  for (const id of ids.slice(1)) await expect.poll(() => statusOf(id), soon).toBe('RUNNING')
  expect(await reconcile(w, w.workflows, new Date(), reconciling)).toEqual([ids[0]])
})

test('all rows are repaired, however many there are', async () => {
  const email = {
    project_id: owner.id,
    kind: 'test',
    sender: 'a@example.com',
    recipient: 'b@example.com',
    subject: 'x',
    text: 'x',
    html: 'x',
  }
  const rows = Array.from({ length: 201 }, (_, i) => ({ ...email, about: String(i), created_at: new Date(0) }))
  const inserted = await w.db.insertInto('mails').values(rows).returning('id').execute()
  const restarted = await reconcile(w, w.workflows, later(), reconciling)
  expect(restarted.filter((id) => id.startsWith('email:')).sort()).toEqual(inserted.map(({ id }) => `email:${id}`).sort())
})

test('a deploy that PostgreSQL refuses to publish fails, and the next one of its site goes live', async () => {
  const site = await makeSite(w, owner)
  {
    await using _refused = await refuseReady(w, site.id)
    const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json: { files: [page('x')] } })
    await expect.poll(() => statusOf(`deploy:${body.id}:1`), soon).toBe('FAILED')
    expect(await reconcile(w, w.workflows, later(), reconciling)).toEqual([])
    const ended = await w.ended(body.id, owner.key)
    expect([ended.status, ended.error]).toEqual(['failed', expect.stringContaining('could not run this deploy')])
  }
  expect((await deployFiles(w, owner, site.id, [page('next')])).status).toBe('active')
})
