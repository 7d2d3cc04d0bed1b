import { Connection } from '@temporalio/client'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxMessageRefusals } from '../../core/message-retries.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { transact } from '../../services/transact.ts'
import { signalWorkflows } from '../../services/workflow-messages.ts'
import { signals } from '../../workflows/contract/messages.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { openProcesses } from './processes.ts'

const soon = { interval: 30, timeout: 60_000 }
const reconciling = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 10_000, retryPauseMs: 60_000 }

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ ownTemporal: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** A search attribute that is not registered, so Temporal refuses every start that has it. */
const unregistered = 'NotRegistered'
const refusedStart = (workflow_id: string, created_at = new Date(0)) => ({
  workflow_id,
  created_at,
  message: JSON.stringify({
    workflow_id,
    type: 'sendEmail',
    input: { email_id: '00000000-0000-7000-8000-000000000000' },
    summary: 'refused',
    attributes: { [unregistered]: 'x' },
  }),
})
const rowsOf = (world: World, workflowId: string) =>
  world.db.selectFrom('workflow_starts').selectAll().where('workflow_id', 'like', workflowId).orderBy('id').execute()
const dead = async (workflowId: string) => (await rowsOf(w, workflowId)).map((row) => row.dead_at !== null)

/** The next refusal is the last one. */
const refuseForGood = (workflowId: string) =>
  w.db
    .updateTable('workflow_starts')
    .set({ attempts: maxMessageRefusals - 1, next_attempt_at: sql<Date>`now()` })
    .where('workflow_id', 'like', workflowId)
    .execute()

test('60 starts that Temporal refuses for good do not delay the start of another project', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('before')])
  const refused = Array.from({ length: 60 }, (_, i) => refusedStart(`email:refused-${i}`))
  await w.db.insertInto('workflow_starts').values(refused).execute()
  await expect.poll(async () => (await rowsOf(w, 'email:refused-%')).filter((row) => row.attempts > 0).length, soon).toBe(60)
  const startedAt = performance.now()
  expect((await deployFiles(w, owner, site.id, [page('x')])).status).toBe('active')
  // a pass without new messages would be a second away
  expect(performance.now() - startedAt).toBeLessThan(10_000)
  const rows = await rowsOf(w, 'email:refused-%')
  expect(rows).toHaveLength(60)
  expect(rows[0]?.last_error).toContain(unregistered)
  await w.db.deleteFrom('workflow_starts').where('workflow_id', 'like', 'email:refused-%').execute()
})

describe('a start that Temporal refuses for good', () => {
  test('is dead after some refusals, drops its signals, and the operator sees it and has it sent again', async () => {
    const id = 'email:dead-1'
    await w.db.insertInto('workflow_starts').values(refusedStart(id)).execute()
    await transact(w, (tx) => signalWorkflows(tx, [{ workflow_id: id, signal: signals.changed }]))
    await expect.poll(async () => (await rowsOf(w, id)).map((row) => row.attempts > 0), soon).toEqual([true, false])
    await refuseForGood(id)
    await expect.poll(() => dead(id), soon).toEqual([true])
    const listed = await w.call('GET /operator/v1/workflow-messages?dead=true', { key: operatorToken })
    expect(listed.body).toMatchObject([
      {
        workflow_id: id,
        signal: null,
        attempts: maxMessageRefusals,
        error: expect.stringContaining(unregistered),
        next_attempt_at: null,
      },
    ])
    expect((await w.call('GET /operator/v1/workflow-messages?dead=false', { key: operatorToken })).body).toEqual([])
    const ready = await w.call('GET /readyz', { key: operatorToken })
    expect([ready.status, ready.body.attention]).toEqual([200, { dead_workflow_messages: 1, stuck_activities: 0 }])
    expect((await w.call('GET /metrics', { key: operatorToken })).body).toContain('plinth_workflow_messages_dead 1')

    const connection = await Connection.connect({ address: w.temporal.address })
    const { namespace } = w.temporal
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: { [unregistered]: 2 } })
    await connection.close()
    const retried = () => w.call('POST /operator/v1/workflow-messages/retry', { key: operatorToken, json: {} })
    await expect
      .poll(async () => {
        await retried()
        return await w.workflows.describe(id)
      }, soon)
      .toBeDefined()
    await expect.poll(() => rowsOf(w, id), soon).toEqual([])
    expect((await retried()).body).toEqual({ retried: 0 })
  })
})

describe('a deploy whose start is dead', () => {
  test('fails, so that the next deploy of its site goes live, and is not started over and over', async () => {
    await using stopped = await world({ worker: false })
    const other = await stopped.project()
    const site = await makeSite(stopped, other)
    const { body } = await stopped.call(`POST /api/v1/sites/${site.id}/deploy-files`, {
      key: other.key,
      json: { files: [page('x')] },
    })
    const id = `deploy:${body.id}:1`
    await expect.poll(() => rowsOf(stopped, id), soon).toEqual([])
    await stopped.db
      .insertInto('workflow_starts')
      .values({ ...refusedStart(`deploy:${body.id}:2`), dead_at: new Date() })
      .execute()
    await stopped.db.updateTable('deploys').set({ attempt: 2 }).where('id', '=', body.id).execute()
    for (const _ of [1, 2]) expect(await reconcile(stopped, stopped.workflows, new Date(), reconciling)).toEqual([])
    const ended = await stopped.ended(body.id, other.key)
    expect([ended.status, ended.error]).toEqual(['failed', expect.stringContaining('could not run this deploy')])
    expect(await rowsOf(stopped, 'deploy:%')).toHaveLength(1)
  })
})

test('only the latest of the dead signals of a workflow is kept, and dead messages are kept for 30 days', async () => {
  const signal = (id: string) => {
    const { message, ...start } = refusedStart('forge:dead')
    return {
      ...start,
      id,
      signal: signals.changed,
      message: JSON.stringify({ workflow_id: 'forge:dead', signal: signals.changed, start: JSON.parse(message) }),
    }
  }
  const ids = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002']
  await w.db
    .insertInto('workflow_starts')
    .values(
      ids.map((id) => ({
        ...signal(id),
        attempts: maxMessageRefusals - 1,
        message: signal(id).message.replaceAll(unregistered, 'Unknown'),
      })),
    )
    .execute()
  await expect
    .poll(async () => (await rowsOf(w, 'forge:dead')).map((row) => [row.id, row.dead_at !== null]), soon)
    .toEqual([[ids[1], true]])
  const days = (count: number) => new Date(Date.now() + count * 86_400_000)
  await deleteExpired(w.db, days(29))
  expect(await dead('forge:dead')).toEqual([true])
  await deleteExpired(w.db, days(31))
  expect(await dead('forge:dead')).toEqual([])
})

test('while Temporal is away, no message uses up its attempts, and all are sent when it is back', async () => {
  const site = await makeSite(w, owner)
  await w.killTemporal()
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json: { files: [page('x')] } })
  await expect.poll(async () => (await rowsOf(w, 'deploy:%')).map((row) => row.last_error !== null), soon).toEqual([true])
  expect((await rowsOf(w, 'deploy:%')).map((row) => [row.attempts, row.dead_at])).toEqual([[0, null]])
  await w.startTemporal({ forget: false })
  expect((await w.ended(body.id, owner.key)).status).toBe('active')
})

test('a worker that is killed beside refused starts loses no deploy and publishes none twice', async () => {
  await using killed = await world({ worker: false })
  await using processes = openProcesses(killed)
  const project = await killed.project('enterprise')
  const sites = [await makeSite(killed, project), await makeSite(killed, project), await makeSite(killed, project)]
  await killed.db
    .insertInto('workflow_starts')
    .values(Array.from({ length: 60 }, (_, i) => refusedStart(`email:refused-${i}`)))
    .execute()
  processes.start('worker')
  const ids: string[] = []
  for (const text of ['1', '2', '3']) {
    for (const site of sites) {
      const json = { files: [page(text)] }
      ids.push((await killed.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json })).body.id)
    }
    await processes.restart('worker')
  }
  for (const id of ids) expect(['active', 'superseded']).toContain((await killed.ended(id, project.key)).status)
  const live = await killed.db.selectFrom('deploys').select('id').where('status', '=', 'active').execute()
  expect(live.map((row) => row.id).sort()).toEqual(ids.slice(-3).sort())
  expect(await rowsOf(killed, 'email:refused-%')).toHaveLength(60)
  expect(await rowsOf(killed, 'deploy:%')).toEqual([])
}, 180_000)
