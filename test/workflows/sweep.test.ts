import { createHash } from 'node:crypto'
import { Client, Connection, WorkflowFailedError } from '@temporalio/client'
import { sql } from 'kysely'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { sweepGraceMs } from '../../core/limits.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { backupLock } from '../../infra/db/base-backup.ts'
import { sweepObjects } from '../../services/storage/sweep.ts'
import { objectColumns } from '../../services/storage/unneeded-objects.ts'
import { registry } from '../../workflows/registry.ts'
import { startSchedules } from '../../workflows/schedules.ts'
import { deployFiles, insertBlobs, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'

const hourMs = 3_600_000

let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
beforeAll(async () => {
  w = await world()
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

let advanced = 0
function advance(ms: number): void {
  advanced += ms
  w.advance(ms)
}
afterEach(() => advance(-advanced))

const silent = pino({ level: 'silent' })
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
const isStored = async (text: string) => (await w.cas.stat(hashOf(text))) !== undefined

async function putBlob(text: string, project = owner): Promise<void> {
  const request = `PUT /api/v1/blobs/${hashOf(text)}`
  const { status } = await w.call(request, { key: project.key, bytes: Buffer.from(text), type: 'application/octet-stream' })
  expect(status).toBe(200)
}

let sweeps = 0
async function sweep(input: object = {}) {
  sweeps += 1
  const handle = await temporal.workflow.start('sweepStorage', {
    workflowId: `${registry.sweepStorage.schedule.workflow_id}-${sweeps}`,
    taskQueue: 'control',
    args: [input],
  })
  return { handle, result: () => handle.result() as Promise<string> }
}
const sweepNow = async (input?: object) => await (await sweep(input)).result()

test('36: nothing is removed while a backup copies the storage', async () => {
  await putBlob('copied by a backup')
  advance(2 * sweepGraceMs)
  await w.db.connection().execute(async (session) => {
    await sql`select pg_advisory_lock(${backupLock}::bigint)`.execute(session)
    await expect(sweepNow()).rejects.toThrow(WorkflowFailedError)
    await sql`select pg_advisory_unlock(${backupLock}::bigint)`.execute(session)
  })
  expect(await isStored('copied by a backup')).toBe(true)
  await sweepNow()
  expect(await isStored('copied by a backup')).toBe(false)
})

test('E10: an upload that no deploy took is given up after a day, and a check begins the day anew', async () => {
  const site = await makeSite(w, owner)
  for (const text of ['abandoned', 'asked for']) await putBlob(text)
  advance(sweepGraceMs - hourMs)
  const files = [{ path: 'index.html', sha256: hashOf('asked for') }]
  const check = () => w.call(`POST /api/v1/sites/${site.id}/deploys/check`, { key: owner.key, json: { files } })
  expect((await check()).body).toEqual({ missing: [] })
  advance(2 * hourMs)
  await sweepNow()
  expect([await isStored('abandoned'), await isStored('asked for')]).toEqual([false, true])
  advance(sweepGraceMs)
  await sweepNow()
  expect(await isStored('asked for')).toBe(false)
  expect((await check()).body).toEqual({ missing: [hashOf('asked for')] })
})

test('X07 E10: what a purge frees stays a day for edges that are behind, then it goes; what is live or kept stays', async () => {
  const site = await makeSite(w, owner)
  const [old, kept, live] = [page('purged one'), page('kept one'), page('live one')]
  const first = await deployFiles(w, owner, site.id, [old])
  for (const file of [kept, live]) await deployFiles(w, owner, site.id, [file])
  advance(3 * sweepGraceMs)
  expect((await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: owner.key })).status).toBe(200)
  const { manifest_sha256 } = await w.db.selectFrom('deploys').selectAll().where('id', '=', first.id).executeTakeFirstOrThrow()
  const stored = () =>
    Promise.all([
      isStored(old.content),
      w.cas.stat(manifest_sha256 ?? '').then(Boolean),
      isStored(kept.content),
      isStored(live.content),
    ])
  await sweepNow()
  expect(await stored()).toEqual([true, true, true, true])
  advance(sweepGraceMs + 1000)
  expect(await sweepNow()).toMatch(/looked at \d+ objects, removed [1-9]\d* \(0 MB\)$/)
  expect(await stored()).toEqual([false, false, true, true])
})

test('E10: what a failed build or a crash has left goes, a queued archive stays', async () => {
  const site = await makeSite(w, owner)
  const { sha256 } = await w.cas.put(Buffer.from('left by a build'))
  const gzip = Buffer.from('1f8b0800', 'hex')
  const send = `POST /api/v1/sites/${site.id}/deploys`
  expect((await w.call(send, { key: owner.key, bytes: gzip, type: 'application/gzip' })).status).toBe(200)
  await sweepNow()
  expect(await w.cas.stat(sha256)).toBeDefined()
  advance(sweepGraceMs + 1000)
  await sweepNow()
  expect(await w.cas.stat(sha256)).toBeUndefined()
  expect(await w.cas.stat(createHash('sha256').update(gzip).digest('hex'))).toBeDefined()
})

test('every column that names an object is known to the sweeper', async () => {
  const { rows } = await sql<{ name: string }>`
    select table_name || '.' || column_name as name from information_schema.columns
    where table_schema = 'public' and column_name like '%sha256' and data_type = 'text'`.execute(w.db)
  const hashesOfLocks = ['access_locks.bypass_sha256', 'access_codes.code_sha256', 'access_tickets.ticket_sha256']
  const hashesOfNonces = ['messenger_connections.nonce_sha256', 'messenger_logins.nonce_sha256', 'messenger_logins.code_sha256']
  const hashesOfSecrets = [
    ...hashesOfNonces,
    'preview_links.token_sha256',
    'git_connections.deploy_hook_sha256',
    ...hashesOfLocks,
  ]
  // what was given up needs nothing
  const hashesOfNeedless = ['released_objects.sha256', 'swept_objects.sha256', 'damaged_objects.sha256']
  // each of them is a blob of its project
  const hashesOfFiles = ['retained_assets.sha256', 'delivery_files.sha256']
  const hashesOfImages = ['delivery_pages.logo_sha256', 'access_brands.logo_sha256', 'access_brands.favicon_sha256']
  const hashesOfBlobs = [...hashesOfFiles, ...hashesOfImages]
  expect(
    rows
      .map((row) => row.name)
      .filter((name) => ![...hashesOfSecrets, ...hashesOfNeedless, ...hashesOfBlobs].includes(name))
      .sort(),
  ).toEqual(Object.keys(objectColumns).sort())
})

describe('failing closed', () => {
  const options = { before: new Date(Date.now() + 1000 * hourMs), progress: () => undefined, maxShare: 1 }

  test.each<[string, Partial<Cas>]>([
    ['the list breaks off', { list: () => brokenList() }],
    ['an object does not answer', { stat: () => Promise.reject(new Error('no answer')) }],
  ])('when %s nothing is removed', async (_what, fault) => {
    await w.cas.put(Buffer.from('unneeded'))
    await expect(sweepObjects({ ...w, cas: { ...w.cas, ...fault } }, options)).rejects.toThrow(/broke|answer/)
    expect(await isStored('unneeded')).toBe(true)
  })

  async function* brokenList() {
    for await (const batch of w.cas.list()) yield batch
    throw new Error('the list broke off')
  }

  test('more than a fifth of many objects is not removed until an operator allows it', async () => {
    const texts = Array.from({ length: 1001 }, (_, i) => `object ${i}`)
    for (let i = 0; i < texts.length; i += 100) {
      await Promise.all(texts.slice(i, i + 100).map((text) => w.cas.put(Buffer.from(text))))
    }
    advance(sweepGraceMs + 1000)
    const failure = await sweepNow().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(WorkflowFailedError)
    const { message } = ((failure as WorkflowFailedError).cause as Error).cause as Error
    expect(message).toMatch(/of 1\d\d\d objects .*Is this the right database/)
    expect(await isStored('object 0')).toBe(true)
    const input = JSON.parse(/\{.*\}/.exec(message)?.[0] ?? '')
    expect(await sweepNow(input)).toMatch(/looked at 1,\d\d\d objects, removed 1,\d\d\d \(/)
    expect(await isStored('object 0')).toBe(false)
  })
})

test('what the platform has given up itself goes however much it is', async () => {
  const texts = Array.from({ length: 1200 }, (_, i) => `abandoned ${i}`)
  for (let i = 0; i < texts.length; i += 100) {
    await Promise.all(texts.slice(i, i + 100).map((text) => w.cas.put(Buffer.from(text))))
  }
  const blobs = texts.map((text) => ({ sha256: hashOf(text), size: text.length, deploys: 0, staged: true }))
  await insertBlobs(w, owner, blobs)
  advance(sweepGraceMs + 1000)
  expect(await sweepNow()).toMatch(/dropped 1,2\d\d unused blobs; .* removed 1,2\d\d /)
  expect(await isStored('abandoned 0')).toBe(false)
})

describe('the workflow', () => {
  test('tells operators what it did, and its history replays', async () => {
    const { handle, result } = await sweep()
    const text = await result()
    expect(text).toMatch(/^purged \d+ deploys; .*; looked at [\d,]+ objects, removed [\d,]+ \([\d.]+ MB\)/)
    expect((await handle.describe()).memo).toEqual({ outcome: text.split('; ').at(-1) })
    await replay(await handle.fetchHistory())
    record(w.temporal, handle.workflowId, 'sweep-storage')
  })
})

describeHistories(/^sweep-.*\.json$/, ['sweep-storage'])

describe('the schedule', () => {
  const handle = () => temporal.schedule.getHandle(registry.sweepStorage.schedule.schedule_id)
  const isThere = () =>
    handle()
      .describe()
      .catch(() => undefined)

  test('is made at the start of a worker, once, runs the sweep every hour, and keeps what an operator has set', async () => {
    await using _first = startSchedules(w.temporal, silent)
    await expect.poll(isThere).toBeDefined()
    await handle().pause('a backup is running')
    const updatedAt = async () => (await handle().describe()).info.lastUpdatedAt?.getTime() ?? 0
    const before = await updatedAt()
    await using _second = startSchedules(w.temporal, silent)
    await expect.poll(updatedAt).toBeGreaterThan(before)
    const description = await handle().describe()
    expect(description).toMatchObject({
      spec: { intervals: [{ every: hourMs }], jitter: 600_000 },
      policies: { overlap: 'SKIP' },
      state: { paused: true, note: 'a backup is running' },
    })
    await handle().trigger()
    const started = async () => (await handle().describe()).info.recentActions.map(({ action }) => action.workflow.workflowId)
    await expect.poll(started).toHaveLength(1)
    const [workflowId = ''] = await started()
    expect(workflowId).toMatch(new RegExp(`^${registry.sweepStorage.schedule.workflow_id}-`))
    expect(await temporal.workflow.getHandle(workflowId).result()).toContain('looked at')
  })

  test('waits for a Temporal that is away', async () => {
    await using waiting = await world({ worker: false, ownTemporal: true })
    await waiting.killTemporal()
    await using _schedules = startSchedules(waiting.temporal, silent)
    await waiting.startTemporal({ forget: true })
    const late = await Connection.connect({ address: waiting.temporal.address })
    const schedule = new Client({ connection: late, namespace: waiting.temporal.namespace }).schedule.getHandle(
      registry.sweepStorage.schedule.schedule_id,
    )
    const made = () => schedule.describe().then(Boolean, () => false)
    await expect.poll(made).toBe(true)
    await late.close()
  })
})

test('a manifest that is stored for a deploy that was never accepted goes too', async () => {
  const sha256 = await storeManifest({ add: w.cas.put }, [{ path: 'index.html', sha256: 'a'.repeat(64), size: 1 }])
  advance(sweepGraceMs + 1000)
  await sweepNow()
  expect(await w.cas.stat(sha256)).toBeUndefined()
})
