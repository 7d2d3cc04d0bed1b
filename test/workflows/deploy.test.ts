import { gzipSync } from 'node:zlib'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxManifestEntries } from '../../core/limits.ts'
import type { DeployReport } from '../../workflows/contract/deploys.ts'
import { tarGz } from '../infra/archives.ts'
import { builtBy, deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { refuseReady } from './refuse-ready.ts'

const maxEvents = 40

let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
beforeAll(async () => {
  w = await world({ runner: true })
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

const handleOf = (deployId: string) => temporal.workflow.getHandle(`deploy:${deployId}:1`)

async function sendArchive(siteId: string, bytes: Uint8Array): Promise<string> {
  const request = `POST /api/v1/sites/${siteId}/deploys`
  return (await w.call(request, { key: owner.key, bytes, type: 'application/gzip' })).body.id
}
const deployArchive = async (siteId: string, bytes: Uint8Array) => await w.ended(await sendArchive(siteId, bytes), owner.key)

const plain = tarGz([{ name: 'index.html', data: 'x' }])
const built = (command: string) => tarGz([{ name: 'plinth.json', data: builtBy(command) }])

/** Waits for its turn behind a build of its site. */
async function deployBehind(siteId: string): Promise<any> {
  await sendArchive(siteId, built('sleep 1; exit 1'))
  return await deployArchive(siteId, plain)
}

async function startBuild(siteId: string): Promise<string> {
  const id = await sendArchive(siteId, built('sleep 60'))
  const status = async () => (await w.call(`GET /api/v1/deploys/${id}`, { key: owner.key })).body.status
  await expect.poll(status).toBe('building')
  return id
}

async function cancelBuild(siteId: string): Promise<any> {
  const id = await startBuild(siteId)
  await handleOf(id).cancel()
  return await w.ended(id, owner.key)
}

async function cancelDeploy(siteId: string): Promise<any> {
  const id = await startBuild(siteId)
  return (await w.call(`POST /api/v1/deploys/${id}/cancel`, { key: owner.key })).body
}

/** Ends although PostgreSQL does not store its result. */
async function deployRefused(siteId: string): Promise<any> {
  await using _refused = await refuseReady(w, siteId)
  return await deployArchive(siteId, plain)
}

/** A kind of deploy and how it ends; each has a recorded history. */
const kinds: [string, DeployReport['outcome'], (siteId: string) => Promise<any>][] = [
  ['files', 'active', (siteId) => deployFiles(w, owner, siteId, [page('x')])],
  ['files-not-published', 'ready', (siteId) => deployFiles(w, owner, siteId, [page('x')], false)],
  ['archive', 'active', (siteId) => deployArchive(siteId, plain)],
  ['archive-behind-another', 'active', deployBehind],
  ['archive-cancelled', 'cancelled', cancelDeploy],
  ['archive-cancelled-by-operator', 'cancelled', cancelBuild],
  ['archive-not-stored', 'failed', deployRefused],
  ['archive-failed', 'failed', (siteId) => deployArchive(siteId, gzipSync('no tar inside'))],
]

describe.each(kinds)('a deploy of the kind %s', (kind, expected, make) => {
  test(`X01: ends ${expected}, within ${maxEvents} events, and its history replays`, async () => {
    const site = await makeSite(w, owner)
    const deploy = await make(site.id)
    expect(deploy.status).toBe(expected === 'cancelled' ? 'failed' : expected)
    const result = await handleOf(deploy.id).result()
    const { memo } = await handleOf(deploy.id).describe()
    expect(result).toEqual({ outcome: expected, summary: memo?.['outcome'] })
    const history = await handleOf(deploy.id).fetchHistory()
    const timers = history.events?.filter((event) => event.timerStartedEventAttributes)
    expect(timers).toHaveLength(kind === 'archive-behind-another' ? 1 : 0)
    expect(history.events?.length).toBeLessThanOrEqual(maxEvents)
    await replay(history)
    record(w.temporal, `deploy:${deploy.id}:1`, `deploy-${kind}`)
  })
})

describeHistories(
  /^deploy-.*\.json$/,
  kinds.map(([kind]) => `deploy-${kind}`),
)

test('B06 D25: an archive that is none of its kind ends failed with a message', async () => {
  const site = await makeSite(w, owner)
  const deploy = await deployArchive(site.id, gzipSync('no tar inside'))
  expect(deploy).toMatchObject({ status: 'failed', error: expect.stringContaining('damaged'), artifacts_purged: false })
  expect((await w.call(`POST /api/v1/deploys/${deploy.id}/activate`, { key: owner.key })).status).toBe(409)
  expect((await w.call(`DELETE /api/v1/deploys/${deploy.id}`, { key: owner.key })).body).toEqual({ ok: true })
})

test('an operator finds the deploy in Temporal by project, site and status, and reads what happened', async () => {
  const site = await makeSite(w, owner)
  const deploy = await deployFiles(w, owner, site.id, [page('x')])
  const query = `SiteId="${site.id}" and DeployStatus="active" and ProjectId="${owner.id}" and SiteName="A site"`
  const found: string[] = []
  while (found.length === 0) for await (const run of temporal.workflow.list({ query })) found.push(run.workflowId)
  expect(found).toEqual([`deploy:${deploy.id}:1`])
  await handleOf(deploy.id).result()
  const description = await handleOf(deploy.id).describe()
  expect(await description.staticSummary()).toBe('**A site** deploy 1 from files')
  expect(description.memo).toEqual({ outcome: '✅ live' })
})

test('E5: a slow deploy never goes live over a later one', async () => {
  const site = await makeSite(w, owner)
  const earlier = await deployFiles(w, owner, site.id, [page('earlier')])
  const later = await deployFiles(w, owner, site.id, [page('later')])
  await w.db.updateTable('deploys').set({ status: 'ready', activated_at: null }).where('id', '=', earlier.id).execute()
  const { createDeployActivities } = await import('../../workflows/activities/deploys.ts')
  const activities = createDeployActivities(w)
  const { run_id } = await w.db.selectFrom('deploys').select('run_id').where('id', '=', earlier.id).executeTakeFirstOrThrow()
  expect(await activities.publishDeploy({ deploy_id: earlier.id, attempt: 1, run_id: run_id ?? '' })).toBe('superseded')
  expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.active_deploy_id).toBe(later.id)
})

test('X01: a run that is repeated after its worker was lost finds the deploy live, and no other run may claim it', async () => {
  const site = await makeSite(w, owner)
  const { id: deploy_id } = await deployFiles(w, owner, site.id, [page('x')])
  const { run_id } = await w.db.selectFrom('deploys').select('run_id').where('id', '=', deploy_id).executeTakeFirstOrThrow()
  const { createDeployActivities } = await import('../../workflows/activities/deploys.ts')
  const activities = createDeployActivities(w)
  const run = { deploy_id, attempt: 1, run_id: run_id ?? '' }
  expect(await activities.claimDeploy(run)).toMatchObject({ site_id: site.id, task: { kind: 'none', outcome: 'active' } })
  expect(await activities.claimDeploy({ ...run, run_id: 'another' })).toBeUndefined()
})

test('O05 D08: a deploy of the most files that are allowed goes live', async () => {
  const site = await makeSite(w, owner)
  const others = Array.from({ length: maxManifestEntries - 1 }, (_, i) => ({ path: `${i}.txt`, content: `${i}` }))
  expect((await deployFiles(w, owner, site.id, [page('x'), ...others])).status).toBe('active')
})
