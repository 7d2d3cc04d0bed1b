import { setTimeout as pause } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { listDueTrash } from '../../services/removal/sites.ts'
import { listDueSubdomainChanges } from '../../services/sites/subdomain-change-rows.ts'
import { transact } from '../../services/transact.ts'
import { startWorkflow } from '../../services/workflow-messages.ts'
import { createSiteActivities } from '../../workflows/activities/sites.ts'
import { restoredSignal, subdomainChangeStart, trashStart } from '../../workflows/contract/sites.ts'
import { aroundTheEnd, deployFiles, makeSite, page, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'

const maxEvents = 20
const hourMs = 3_600_000

let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
beforeAll(async () => {
  const env = { PLINTH_TRASH_PERIOD: '1500ms', PLINTH_SUBDOMAIN_SWITCH_DELAY: '1500ms', PLINTH_SUBDOMAIN_CHANGE_INTERVAL: '0ms' }
  w = await world({ env, ownTemporal: true })
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

const post = (path: string, json?: object) => w.call(`POST /api/v1/sites/${path}`, { key: owner.key, json })
const remove = async (path: string) => (await w.call(`DELETE /api/v1/sites/${path}`, { key: owner.key })).body
const read = (id: string) => w.call(`GET /api/v1/sites/${id}`, { key: owner.key })
const trash = async (id: string) => `trash:${id}:${Date.parse((await remove(id)).deletion_scheduled_at)}`
async function change(id: string, subdomain = randomName()): Promise<string> {
  await post(`${id}/subdomain-change`, { subdomain })
  const row = await w.db
    .selectFrom('subdomain_changes')
    .select('id')
    .where('new_subdomain', '=', subdomain)
    .executeTakeFirstOrThrow()
  return `subdomain:${id}:${row.id}`
}
/** The relay has started the workflow. */
async function running(workflowId: string) {
  const handle = temporal.workflow.getHandle(workflowId)
  await expect.poll(() => handle.describe().then(Boolean, () => false)).toBe(true)
  return handle
}

async function cancelled(siteId: string): Promise<string> {
  const workflowId = await change(siteId)
  await running(workflowId)
  await remove(`${siteId}/subdomain-change`)
  return workflowId
}

async function restored(siteId: string): Promise<string> {
  const workflowId = await trash(siteId)
  await running(workflowId)
  expect((await post(`${siteId}/restore`)).status).toBe(200)
  return workflowId
}

/** A kind of wait, how it ends, what operators read then, and how it comes about; each has a recorded history. */
const kinds: [string, string, string, (siteId: string) => Promise<string>][] = [
  ['subdomain-cancelled', 'cancelled', '➖ cancelled', cancelled],
  ['subdomain-switched', 'switched', '✅ switched; the old address leads to the new one', (id) => change(id)],
  ['trash-expired', 'purged', '✅ removed for good', trash],
  ['trash-restored', 'restored', '➖ restored', restored],
]

describe.each(kinds)('a wait of the kind %s', (kind, expected, memo, make) => {
  test(`T06 U02: ends ${expected}, within ${maxEvents} events, and its history replays`, async () => {
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [page('x')])
    const workflowId = await make(site.id)
    const handle = await running(workflowId)
    expect(await handle.result()).toBe(expected)
    expect((await handle.describe()).memo).toEqual({ outcome: memo })
    const history = await handle.fetchHistory()
    expect(history.events?.filter((event) => event.timerStartedEventAttributes)).toHaveLength(1)
    expect(history.events?.length).toBeLessThanOrEqual(maxEvents)
    await replay(history)
    record(w.temporal, workflowId, kind)
  })
})

describeHistories(
  /^(trash|subdomain)-.*\.json$/,
  kinds.map(([kind]) => kind),
)

test('an operator finds the waits of a site in Temporal, with their end', async () => {
  const site = await makeSite(w, owner)
  const workflowId = await trash(site.id)
  const due = (await read(site.id)).body.deletion_scheduled_at
  const [before, after] = [-1000, 1000].map((ms) => new Date(Date.parse(due) + ms).toISOString())
  const query = `SiteId="${site.id}" and ProjectId="${owner.id}" and DueAt > "${before}" and DueAt < "${after}"`
  const found: string[] = []
  while (found.length === 0) for await (const run of temporal.workflow.list({ query })) found.push(run.workflowId)
  expect(found).toEqual([workflowId])
  const description = await (await running(workflowId)).describe()
  expect(await description.staticSummary()).toBe(`**A site** in the trash until ${due}`)
})

test('a signal without a cause, or a restore and another trashing, ends nothing before its time', async () => {
  const site = await makeSite(w, owner)
  const first = await trash(site.id)
  await running(first)
  await post(`${site.id}/restore`)
  const second = await trash(site.id)
  const purge_at = new Date(Number(second.split(':')[2]))
  await running(second)
  await w.workflows.signal(restoredSignal({ site_id: site.id, purge_at }))
  expect(await (await running(first)).result()).toBe('restored')
  while (Date.now() < purge_at.getTime() - 50) expect((await read(site.id)).status).toBe(200)
  expect(await (await running(second)).result()).toBe('purged')
  expect(Date.now()).toBeGreaterThanOrEqual(purge_at.getTime())
  expect((await read(site.id)).status).toBe(404)
})

test('T06 U02: what Temporal has lost is found in PostgreSQL when it is due, with all that its start needs', async () => {
  const [trashed, renamed] = [await makeSite(w, owner), await makeSite(w, owner)]
  const name = randomName()
  await w.killTemporal()
  const lost = [await trash(trashed.id), await change(renamed.id, name)]
  const until = new Date(Date.now() + hourMs)
  const trashRow = (await listDueTrash(w.db, until, { limit: 10 })).find((row) => row.site_id === trashed.id)
  const changeRow = (await listDueSubdomainChanges(w.db, until, { limit: 10 })).find((row) => row.site_id === renamed.id)
  if (!trashRow || !changeRow) throw new Error('not found')
  const none = [
    await listDueTrash(w.db, new Date(0), { limit: 10 }),
    await listDueSubdomainChanges(w.db, new Date(0), { limit: 10 }),
  ]
  expect(none).toEqual([[], []])
  const starts = [trashStart(trashRow), subdomainChangeStart(changeRow)]
  const kept = await w.db.selectFrom('workflow_starts').select('message').where('workflow_id', 'in', lost).execute()
  expect(starts.map((start) => start.workflow_id)).toEqual(lost)
  expect(kept.map((row) => row.message)).toEqual(expect.arrayContaining(starts))
  await w.db.deleteFrom('workflow_starts').execute()
  await w.startTemporal({ forget: true })
  await transact(w, async (tx) => {
    for (const start of starts) await startWorkflow(tx, start)
  })
  await expect.poll(async () => (await read(trashed.id)).status).toBe(404)
  await expect.poll(async () => (await read(renamed.id)).body.subdomain).toBe(name)
  expect([await listDueTrash(w.db, until, { limit: 10 }), await listDueSubdomainChanges(w.db, until, { limit: 10 })]).toEqual([
    [],
    [],
  ])
})

describe('races about one row', () => {
  const rounds = 12
  // what the workflow would do an hour later
  const servicesLater = () => ({ ...w, clock: () => new Date(Date.now() + hourMs) })
  const activities = () => createSiteActivities(servicesLater())

  test('U04: a change, its cancellation, its switch and the trash at once leave one name and one answer', async () => {
    const seen = new Set<string>()
    const moments = aroundTheEnd(0, 50)
    for (let round = 0; round < rounds; round++) {
      const site = await makeSite(w, owner)
      const name = randomName()
      const change_id = (await change(site.id, name)).split(':')[2] ?? ''
      const now = new Date().toISOString()
      const apply = () => activities().applySubdomainChange({ site_id: site.id, change_id, switch_at: now })
      const late = () => moments.next(now).then(apply)
      const cancelling = remove(`${site.id}/subdomain-change`)
      await Promise.all([cancelling, late(), late(), ...(round % 3 === 0 ? [trash(site.id)] : [])])
      const row = await w.db.selectFrom('subdomain_changes').selectAll().where('id', '=', change_id).executeTakeFirstOrThrow()
      const outcome = row.switched_at ? 'switched' : 'cancelled'
      seen.add(outcome)
      moments.tell(outcome === 'switched')
      expect([row.switched_at === null, row.cancelled_at === null].filter(Boolean)).toHaveLength(1)
      const held = await w.db.selectFrom('subdomains').select(['subdomain', 'kind']).where('site_id', '=', site.id).execute()
      const expected =
        outcome === 'switched' ? { [site.subdomain]: 'former', [name]: 'current' } : { [site.subdomain]: 'current' }
      expect(Object.fromEntries(held.map((one) => [one.subdomain, one.kind]))).toEqual(expected)
      expect((await read(site.id)).body.subdomain).toBe(outcome === 'switched' ? name : site.subdomain)
      expect(await apply()).toBe(outcome)
    }
    expect(seen).toEqual(new Set(['switched', 'cancelled']))
  })

  test('T05 T06: a restore and the removal at once leave a whole site or none', async () => {
    const seen = new Set<number>()
    // on some machines one of them always wins: its rival begins a little earlier each time
    const later = <T>(round: number, work: () => Promise<T>) => pause(round).then(work)
    for (let round = 0; round < rounds || (seen.size < 2 && round < 100 * rounds); round++) {
      const site = await makeSite(w, owner)
      const purge_at = new Date(Number((await trash(site.id)).split(':')[2])).toISOString()
      const purge = () => purgeSite(servicesLater(), { site_id: site.id, purge_at: new Date(purge_at) }, () => undefined)
      const restoring = () => post(`${site.id}/restore`)
      const [outcome, answer] = await (round % 2 === 0
        ? Promise.all([purge(), later(round, restoring)])
        : Promise.all([restoring(), later(round, purge)]).then(([second, first]) => [first, second] as const))
      seen.add(answer.status)
      expect([outcome, answer.status === 200]).toEqual(answer.status === 200 ? ['restored', true] : ['purged', false])
      expect((await read(site.id)).status).toBe(answer.status === 200 ? 200 : 404)
      expect(await purge()).toBe(outcome)
    }
    expect(seen.size).toBeGreaterThan(1)
  })
})
