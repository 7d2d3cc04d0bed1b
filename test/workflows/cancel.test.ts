import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { findUnneeded } from '../../services/storage/unneeded-objects.ts'
import { fetchesDir } from '../../workflows/activities/fetch-repository.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { tarGz } from '../infra/archives.ts'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { builtBy, makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { replay } from './histories.ts'
import { openProcesses } from './processes.ts'
import { openTemporalClient } from './temporal-client.ts'

vi.setConfig({ testTimeout: 120_000 })
// for a machine that is busy with other things
const soon = { timeout: 60_000 }
/** How long the run of a cancelled deploy may go on: 5 s on a machine that does nothing else. Without the cancellation it would be minutes. */
const endsWithinMs = 20_000

const stack = new AsyncDisposableStack()
let w: World
let server: GitServer
let temporal: Client
/** Answers in place of the git server; true when it has done so. */
let intercept: (req: IncomingMessage, res: ServerResponse) => boolean
beforeEach(() => {
  intercept = () => false
})
beforeAll(async () => {
  server = stack.use(await startGitServer({ intercept: (req, res) => intercept(req, res) }))
  w = stack.use(
    await world({ runner: true, ownTemporal: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true', PLINTH_BUILD_SLOTS: '2' } }),
  )
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())

interface Started {
  readonly id: string
  readonly project: TestProject
}

const handleOf = (id: string) => temporal.workflow.getHandle(`deploy:${id}:1`)
/** Undefined while its run has not begun, which may be after the cancellation. */
const outcomeOf = async (id: string): Promise<string | undefined> => {
  const result = handleOf(id).result()
  return (await result.catch(() => undefined))?.outcome
}
const get = async ({ id, project }: Started) => (await w.call(`GET /api/v1/deploys/${id}`, { key: project.key })).body
const cancel = ({ id, project }: Started) => w.call(`POST /api/v1/deploys/${id}/cancel`, { key: project.key })
const logOf = async ({ id, project }: Started) =>
  (await w.call(`GET /api/v1/deploys/${id}/logs`, { key: project.key })).body.text as string
const minutes = async ({ project }: Started) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.build_minutes_this_month

async function send(project: TestProject, siteId: string, tree: Record<string, string>): Promise<Started> {
  const bytes = tarGz(Object.entries(tree).map(([name, data]) => ({ name, data })))
  const request = `POST /api/v1/sites/${siteId}/deploys`
  const { body } = await w.call(request, { key: project.key, bytes, type: 'application/gzip' })
  return { id: body.id, project }
}

const lock = { name: 'x', version: '1.0.0', lockfileVersion: 3, packages: { '': { name: 'x', version: '1.0.0' } } }
const project = (scripts: Record<string, string>) => ({
  'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts }),
  'package-lock.json': JSON.stringify(lock),
})

const building = (command: string) => ({ 'plinth.json': builtBy(command) })

/** What a running build shows with its heartbeats. */
async function phaseOf(id: string): Promise<string> {
  const { raw } = await handleOf(id).describe()
  const payload = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads?.[0]?.data
  return payload ? JSON.parse(Buffer.from(payload).toString()).phase : ''
}

async function inPhase(phase: string, tree: Record<string, string>): Promise<Started> {
  const owner = await w.project('enterprise')
  const started = await send(owner, (await makeSite(w, owner)).id, tree)
  await expect.poll(() => phaseOf(started.id), { ...soon, interval: 20 }).toBe(phase)
  return started
}

/** Builds that were only in the way. */
const afterwards: Started[] = []

async function behindAnother(): Promise<Started> {
  const first = await inPhase('build', building('sleep 60'))
  const { site_id } = await get(first)
  const second = await send(first.project, site_id, { 'index.html': 'x' })
  await expect.poll(async () => (await get(second)).waiting_for, soon).toBe('deploy 1 of this site')
  afterwards.push(first)
  return second
}

async function withoutSlot(): Promise<Started> {
  const busy = [await inPhase('build', building('sleep 60')), await inPhase('build', building('sleep 60'))]
  const owner = await w.project('enterprise')
  const started = await send(owner, (await makeSite(w, owner)).id, { 'index.html': 'x' })
  await expect.poll(async () => (await get(started)).waiting_for, soon).toBe('a build slot')
  afterwards.push(...busy)
  return started
}

async function whileFetching(): Promise<Started> {
  const owner = await w.project('enterprise')
  const site = await makeSite(w, owner)
  const repository = server.repository(`r-${site.id}`)
  repository.pushFiles({ 'index.html': 'x' })
  const json = { repo_url: `${server.origin}/r-${site.id}.git` }
  await w.call(`PUT /api/v1/sites/${site.id}/git`, { key: owner.key, json })
  const reached = Promise.withResolvers<void>()
  intercept = () => {
    reached.resolve()
    return true
  }
  const { id } = (await w.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: owner.key })).body
  await reached.promise
  return { id, project: owner }
}

async function whileInstalling(): Promise<Started> {
  const started = await inPhase('install', project({ preinstall: 'echo installing && sleep 60', build: 'true' }))
  await expect.poll(() => logOf(started), soon).toContain('\ninstalling')
  return started
}

const manyFiles = `const fs = require('fs'); fs.mkdirSync('dist'); fs.writeFileSync('dist/index.html', 'x');
  for (let i = 0; i < 15000; i++) fs.writeFileSync('dist/' + i, process.pid + ' ' + i)`
const storing = { ...building('node make.cjs'), 'make.cjs': manyFiles }

/** Processes of builds and of fetches, their folders, and the rows that hold permits. */
function leftovers(): string[] {
  const commands = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => (existsSync(`/proc/${pid}/cmdline`) ? commandOf(pid) : ''))
  const builds = readdirSync(w.config.build.dir).filter((name) => name.startsWith('run-'))
  const archives = existsSync(fetchesDir(w.config)) ? readdirSync(fetchesDir(w.config)) : []
  return [
    ...commands.filter((command) => command.includes('bwrap') && command.includes(w.dir)),
    ...builds,
    ...archives.filter((name) => name.endsWith('.gz')),
  ]
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** Objects of the storage that a row needs are not left over; those that are released are as good as gone. */
async function unreleased(): Promise<string[]> {
  const hashes: string[] = []
  for await (const batch of w.cas.list()) hashes.push(...batch)
  const unneeded = await findUnneeded(w.db, hashes, new Date())
  const released = new Set((await w.db.selectFrom('released_objects').select('sha256').execute()).map(({ sha256 }) => sha256))
  return unneeded.filter((sha256) => !released.has(sha256))
}

const steps: [string, () => Promise<Started>, { charged: number }][] = [
  ['waits for a permit', behindAnother, { charged: 0 }],
  ['waits for a slot', withoutSlot, { charged: 0 }],
  ['is fetched', whileFetching, { charged: 0 }],
  ['installs its packages', whileInstalling, { charged: 1 }],
  ['is built', () => inPhase('build', building('sleep 60')), { charged: 1 }],
  ['collects its files', () => inPhase('collect', storing), { charged: 1 }],
]

describe.each(steps)('E31: a deploy that %s is cancelled', (_what, begin, { charged }) => {
  test('it has failed at once, its run ends soon and says so, minutes are charged, and nothing is left', async () => {
    const started = await begin()
    const before = await minutes(started)
    const { status, body } = await cancel(started)
    const cancelledAt = performance.now()
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ status: 'failed', error: 'cancelled by key full', finished_at: expect.any(String) }),
    ])
    const report = await handleOf(started.id).result()
    const elapsedMs = performance.now() - cancelledAt
    expect(report).toEqual({ outcome: 'cancelled', summary: '🚫 `cancelled by key full`' })
    expect(elapsedMs).toBeLessThan(endsWithinMs)
    expect((await minutes(started)) - before).toBe(charged)
    expect((await get(started)).status).toBe('failed')
    const query = `DeployId="${started.id}" and DeployStatus="cancelled"`
    await expect.poll(async () => (await temporal.workflow.count(query)).count, soon).toBe(1)
    if (charged > 0) expect(await logOf(started)).toMatch(/\ncancelled\n$/)
    for (const other of afterwards.splice(0)) await cancel(other)
    await expect.poll(leftovers, soon).toEqual([])
    await expect.poll(unreleased, soon).toEqual([])
    await replay(await handleOf(started.id).fetchHistory())
  })
})

test('E31: a cancelled deploy gives its place to the next one of its site', async () => {
  const first = await inPhase('build', building('sleep 60'))
  const { site_id } = await get(first)
  const next = await send(first.project, site_id, { 'index.html': 'next' })
  await cancel(first)
  expect((await w.ended(next.id, first.project.key)).status).toBe('active')
  expect((await get(first)).status).toBe('failed')
})

test('E31: a deploy that was cancelled already is refused with 409, and stays as it is', async () => {
  const started = await inPhase('build', building('sleep 60'))
  const first = await cancel(started)
  const again = await w.call(`POST /api/v1/deploys/${started.id}/cancel`, { key: await w.key(started.project, 'editor') })
  expect([again.status, again.body.message]).toEqual([
    409,
    'a deploy that is failed cannot be cancelled; only queued and building ones can',
  ])
  const { error, finished_at } = await get(started)
  expect([error, finished_at]).toEqual([first.body.error, first.body.finished_at])
})

test('E31: a deploy that has ended otherwise is refused with 409', async () => {
  const owner = await w.project('enterprise')
  const started = await send(owner, (await makeSite(w, owner)).id, { 'index.html': 'x' })
  await w.ended(started.id, owner.key)
  const { status, body } = await cancel(started)
  expect([status, body.message]).toEqual([409, 'a deploy that is active cannot be cancelled; only queued and building ones can'])
})

test('E31: a cancellation that races the end of the build leaves one truth', async () => {
  const owner = await w.project('enterprise')
  const site = await makeSite(w, owner)
  for (let pauseMs = 0; pauseMs < 700; pauseMs += 70) {
    const started = await send(owner, site.id, { 'index.html': `${pauseMs}` })
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    const { status } = await cancel(started)
    await expect.poll(() => outcomeOf(started.id), soon).toBe(status === 200 ? 'cancelled' : 'active')
    const deploy = await get(started)
    expect([status, deploy.status]).toEqual(status === 200 ? [200, 'failed'] : [409, 'active'])
  }
  await expect.poll(unreleased, soon).toEqual([])
})

test('E31: a deploy that no worker has seen is cancelled while Temporal is away, and its run says so afterwards', async () => {
  const owner = await w.project('enterprise')
  const site = await makeSite(w, owner)
  await w.killTemporal()
  const archive = await send(owner, site.id, { 'index.html': 'x' })
  const files = [{ path: 'index.html', content: 'x' }]
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json: { files } })
  const stored = { id: body.id as string, project: owner }
  for (const started of [archive, stored]) {
    const { status, body: answer } = await cancel(started)
    expect([status, answer.status, answer.started_at]).toEqual([200, 'failed', null])
  }
  await w.startTemporal({ forget: false })
  for (const { id } of [archive, stored]) {
    await expect.poll(() => outcomeOf(id), soon).toBe('cancelled')
  }
  expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.active_deploy_id).toBeNull()
})

test('E31: whatever is killed right after a cancellation, the deploy has failed, its run says so, and the next one goes live', async () => {
  await using owned = new AsyncDisposableStack()
  const other = owned.use(await world({ worker: false }))
  const processes = owned.use(openProcesses(other))
  const owner = await other.project('enterprise')
  const site = await makeSite(other, owner)
  const request = `POST /api/v1/sites/${site.id}/deploys`
  const sent = async (tree: Record<string, string>): Promise<any> => {
    const bytes = tarGz(Object.entries(tree).map(([name, data]) => ({ name, data })))
    return (await other.call(request, { key: owner.key, bytes, type: 'application/gzip' })).body
  }
  const statusOf = async (id: string) => (await other.call(`GET /api/v1/deploys/${id}`, { key: owner.key })).body.status
  processes.start('worker')
  processes.start('runner')
  const connection = await Connection.connect({ address: other.temporal.address })
  owned.defer(() => connection.close())
  const runs = new Client({ connection, namespace: other.temporal.namespace }).workflow
  for (const killed of [['worker'], ['runner'], ['runner', 'worker']] as const) {
    const { id } = await sent(building('sleep 60'))
    await expect.poll(() => statusOf(id), soon).toBe('building')
    expect((await other.call(`POST /api/v1/deploys/${id}/cancel`, { key: owner.key })).body.status).toBe('failed')
    for (const role of killed) await processes.restart(role)
    const next = await sent({ 'index.html': id })
    expect((await other.ended(next.id, owner.key)).status).toBe('active')
    expect((await runs.getHandle(`deploy:${id}:1`).result()) as object).toMatchObject({ outcome: 'cancelled' })
    expect(await statusOf(id)).toBe('failed')
  }
  await expect.poll(() => readdirSync(other.config.build.dir).filter((name) => name.startsWith('run-')), soon).toEqual([])
  const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 10_000, retryPauseMs: 60_000 }
  expect(await reconcile(other, other.workflows, new Date(), options)).toEqual([])
})
