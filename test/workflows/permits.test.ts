import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../../infra/log.ts'
import { createDeployActivities } from '../../workflows/activities/deploys.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { tarGz } from '../infra/archives.ts'
import { builtBy, deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { openProcesses } from './processes.ts'

const buildsPerProject = 2
const reconciling = { stalledAfterMs: 60_000, dueWithinMs: 0, checkIntervalMs: 10_000, retryPauseMs: 60_000 }
// for a machine that is busy with other things
const soon = { timeout: 120_000 }
vi.setConfig({ testTimeout: 300_000 })

const env = { PLINTH_BUILD_SLOTS: '3', PLINTH_BUILDS_PER_PROJECT: String(buildsPerProject) }

const building = (command: string) => ({ 'plinth.json': builtBy(command) })
const quick = { 'index.html': 'x' }
/** Has no index.html. */
const wrong = { 'readme.txt': 'x' }
const slow = building('mkdir dist && echo x > dist/index.html && sleep 2')
const endless = building('sleep 60')

async function send(w: World, project: TestProject, siteId: string, tree: Record<string, string>): Promise<string> {
  const bytes = tarGz(Object.entries(tree).map(([name, data]) => ({ name, data })))
  const request = `POST /api/v1/sites/${siteId}/deploys`
  const { status, body } = await w.call(request, { key: project.key, bytes, type: 'application/gzip' })
  expect([status, body.status, body.started_at]).toEqual([200, 'queued', null])
  return body.id
}

const rowOf = (w: World, id: string) => w.db.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

/** How many of these builds ran when the busiest of them began. */
const mostAtOnce = (rows: readonly { started_at: Date | null; finished_at: Date | null }[]) =>
  Math.max(
    ...rows.map(
      ({ started_at: at }) =>
        rows.filter((row) => at && row.started_at && row.started_at <= at && Number(row.finished_at) > +at).length,
    ),
  )

describe('with a worker and a runner', () => {
  let w: World
  let connection: Connection
  beforeAll(async () => {
    w = await world({ runner: true, env })
    connection = await Connection.connect({ address: w.temporal.address })
  })
  afterAll(async () => {
    await connection?.close()
    await w?.[Symbol.asyncDispose]()
  })

  const handleOf = (deployId: string, attempt = 1) =>
    new Client({ connection, namespace: w.temporal.namespace }).workflow.getHandle(`deploy:${deployId}:${attempt}`)

  /** What the Temporal UI shows as the current details. */
  async function detailsOf(deployId: string): Promise<string> {
    const metadata = await handleOf(deployId).query<{ currentDetails?: string }>('__temporal_workflow_metadata')
    return metadata.currentDetails ?? ''
  }
  const attributesOf = async (deployId: string) =>
    (await handleOf(deployId).describe()).typedSearchAttributes.getAll().map(({ key, value }) => `${key.name}=${String(value)}`)

  test('X01 B05: builds of a site run in the order they were accepted, those of a project at most its number at once', async () => {
    const project = await w.project('enterprise')
    const sites = [await makeSite(w, project), await makeSite(w, project), await makeSite(w, project)]
    const ids: { site: string; id: string }[] = []
    for (const tree of [slow, wrong, quick]) {
      for (const site of sites) ids.push({ site: site.id, id: await send(w, project, site.id, tree) })
    }
    const ended = await Promise.all(ids.map(({ id }) => w.ended(id, project.key)))
    expect(ended.map((deploy) => deploy.status === 'failed')).toEqual([0, 0, 0, 1, 1, 1, 0, 0, 0].map(Boolean))
    const rows = await Promise.all(ids.map(({ id }) => rowOf(w, id)))
    for (const site of sites) {
      const own = rows.filter((row) => row.site_id === site.id)
      expect(mostAtOnce(own)).toBe(1)
      expect(own.map((row) => row.seq)).toEqual([1, 2, 3])
      const starts = own.map((row) => Number(row.started_at))
      expect(starts).toEqual(starts.toSorted((a, b) => a - b))
    }
    expect(mostAtOnce(rows)).toBe(buildsPerProject)
  })

  test('X01: a build stays queued until a runner begins, and files do not wait for builds of their site', async () => {
    const project = await w.project('enterprise')
    const site = await makeSite(w, project)
    const first = await send(w, project, site.id, endless)
    const second = await send(w, project, site.id, quick)
    await expect.poll(() => detailsOf(second), soon).toContain('waits for deploy 1 of this site')
    await expect.poll(() => detailsOf(first), soon).toContain('building since')
    expect(await attributesOf(first)).toContain('DeployStatus=building')
    expect(await attributesOf(second)).toContain('DeployStatus=queued')
    expect(await rowOf(w, first)).toMatchObject({ status: 'building', started_at: expect.any(Date) })
    expect(await rowOf(w, second)).toMatchObject({ status: 'queued', started_at: null, turn_at: null })
    expect((await deployFiles(w, project, site.id, [page('files')])).status).toBe('active')
    expect((await rowOf(w, second)).status).toBe('queued')
    await handleOf(first).cancel()
    expect((await w.ended(first, project.key)).status).toBe('failed')
    expect((await w.ended(second, project.key)).status).toBe('superseded')
    await expect.poll(() => attributesOf(second), soon).toContain('DeployStatus=superseded')
  })

  test('a build that the operator cancels while it waits fails, and keeps no permit from others', async () => {
    const project = await w.project('enterprise')
    const site = await makeSite(w, project)
    const [first, second, third] = [
      await send(w, project, site.id, endless),
      await send(w, project, site.id, quick),
      await send(w, project, site.id, quick),
    ]
    await expect.poll(() => detailsOf(second), soon).toContain('waits for deploy 1')
    await handleOf(second).cancel()
    const cancelled = await w.ended(second, project.key)
    expect(cancelled).toMatchObject({ status: 'failed', error: expect.stringContaining('cancelled'), started_at: null })
    expect((await rowOf(w, third)).turn_at).toBeNull()
    await handleOf(first).cancel()
    expect((await w.ended(third, project.key)).status).toBe('active')
  })

  test('the reconciler lets a terminated build request its permit again, in front of those behind it', async () => {
    const project = await w.project('enterprise')
    const site = await makeSite(w, project)
    const first = await send(w, project, site.id, slow)
    const second = await send(w, project, site.id, quick)
    await expect.poll(async () => (await rowOf(w, first)).status, soon).toBe('building')
    await handleOf(first).terminate()
    const options = { ...reconciling, stalledAfterMs: 0 }
    expect(await reconcile(w, w.workflows, new Date(), options)).toEqual([`deploy:${first}:1`])
    expect((await w.ended(first, project.key)).status).toBe('active')
    expect((await w.ended(second, project.key)).status).toBe('active')
    const rows = await Promise.all([first, second].map((id) => rowOf(w, id)))
    expect(rows.map((row) => row.attempt)).toEqual([2, 1])
    expect(Number(rows[1]?.started_at)).toBeGreaterThanOrEqual(Number(rows[0]?.finished_at))
  })

  test('the reconciler grants a permit that was lost', async () => {
    const project = await w.project('enterprise')
    const site = await makeSite(w, project)
    const first = await send(w, project, site.id, endless)
    const second = await send(w, project, site.id, quick)
    await expect.poll(() => detailsOf(second), soon).toContain('waits for deploy 1')
    // ended without anyone who passes its permit on
    await handleOf(first).terminate()
    await w.db.updateTable('deploys').set({ status: 'failed', source_sha256: null }).where('id', '=', first).execute()
    expect(await reconcile(w, w.workflows, new Date(), reconciling)).toEqual([])
    expect((await w.ended(second, project.key)).status).toBe('active')
  })
})

test('a build whose beginning nobody heard of ends all the same, and passes its permit on', async () => {
  await using w = await world({ worker: false, env })
  const project = await w.project('enterprise')
  const site = await makeSite(w, project)
  const ids = [await send(w, project, site.id, quick), await send(w, project, site.id, quick)]
  const [first, second] = ids.map((deploy_id) => ({ deploy_id, attempt: 1, run_id: `run of ${deploy_id}` }))
  if (!first || !second) throw new Error('two were sent')
  let wakes = 0
  const activities = createDeployActivities({
    ...w,
    relay: { wake: () => void wakes++ },
    log: createLogger('test', 'silent'),
    clock: () => new Date(),
  })
  for (const run of [first, second]) await activities.claimDeploy(run)
  expect(await activities.requestPermit(first)).toEqual({ granted: true })
  expect(await activities.requestPermit(second)).toEqual({ granted: false, waits_for: 'waits for deploy 1 of this site' })
  const result = { outcome: 'failed', error: 'no', build_mode: 'build', build_seconds: 7, skipped_paths: [] } as const
  expect(await activities.finishBuild(first, result)).toEqual({ status: 'failed', error: 'no', cancelled: false })
  expect(wakes).toBeGreaterThan(0)
  const row = await rowOf(w, first.deploy_id)
  expect(Number(row.finished_at) - Number(row.started_at)).toBe(7000)
  expect(await activities.requestPermit(second)).toEqual({ granted: true })
  // word of it may come late, and from a run that has lost the deploy
  await activities.markBuilding(first)
  await activities.markBuilding({ ...second, run_id: 'another run' })
  expect((await rowOf(w, first.deploy_id)).status).toBe('failed')
  expect((await rowOf(w, second.deploy_id)).status).toBe('queued')
  expect(await activities.requestPermit({ ...second, run_id: 'another run' })).toBeUndefined()
})

test('whatever is killed while builds run and wait, each ends once, and those of a site in their order', async () => {
  await using stack = new AsyncDisposableStack()
  const w = stack.use(await world({ worker: false, ownTemporal: true, env }))
  const processes = stack.use(openProcesses(w))
  const project = await w.project('enterprise')
  const sites = [await makeSite(w, project), await makeSite(w, project)]
  const ids: string[] = []
  for (const tree of [slow, slow, quick]) for (const site of sites) ids.push(await send(w, project, site.id, tree))
  processes.start('worker')
  processes.start('runner')
  const building = async () => (await Promise.all(ids.map((id) => rowOf(w, id)))).some((row) => row.status === 'building')
  await expect.poll(building, soon).toBe(true)
  await processes.restart('worker')
  await processes.restart('runner')
  await w.killTemporal()
  await w.startTemporal({ forget: false })
  const ended = await Promise.all(ids.map((id) => w.ended(id, project.key)))
  expect(ended.map((deploy) => deploy.status === 'failed')).not.toContain(true)
  const rows = await Promise.all(ids.map((id) => rowOf(w, id)))
  for (const site of sites) {
    const own = rows.filter((row) => row.site_id === site.id)
    expect(mostAtOnce(own)).toBe(1)
    expect(own.map((row) => row.status)).toEqual(['superseded', 'superseded', 'active'])
  }
  const totals = await w.db.selectFrom('build_totals').select(['outcome', 'builds']).execute()
  expect(totals).toEqual([{ outcome: 'built', builds: ids.length }])
  expect(await reconcile(w, w.workflows, new Date(), { ...reconciling, stalledAfterMs: 0 })).toEqual([])
})
