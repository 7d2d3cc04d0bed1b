import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../edge/test-edge.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type KillablePostgres, startKillablePostgres } from './killable-postgres.ts'
import { report } from './platform.ts'

// Who reads that a deploy is active gets its page from every edge, also when edges are stopped or killed, and when PostgreSQL was.

const activations = 100
/** An edge without heartbeats counts as live for ten seconds, by a clock of milliseconds. */
const untilForgottenMs = 11_000
/** An answer that waits for an edge takes at least this long. */
const waitMs = 1000

interface EdgeProcess {
  readonly child: ChildProcess
  readonly port: number
}

interface TwoSided {
  readonly host: string
  /** The ids of two deploys, whose pages are `side 0` and `side 1`. */
  readonly sides: readonly string[]
}

let w: World
let project: TestProject
let postgres: KillablePostgres
let site: TwoSided
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  postgres = stack.use(await startKillablePostgres())
  const { url } = postgres
  // the server ends with its only database
  const forbidConnections = () => Promise.reject(new Error('not here'))
  w = stack.use(await world({ database: { url, forbidConnections, [Symbol.asyncDispose]: () => Promise.resolve() } }))
  project = await w.project('enterprise')
  const { id, subdomain } = await makeSite(w, project)
  const sides: string[] = []
  for (const content of ['side 0', 'side 1']) sides.push((await deployFiles(w, project, id, [page(content)])).id)
  site = { host: `${subdomain}.${w.config.urls.platformDomain}`, sides }
})
afterAll(() => stack.disposeAsync())

let started = 0
async function startEdge(): Promise<EdgeProcess> {
  const { platformDomain, base: baseUrl, preview: previewUrl } = w.config.urls
  const options = { platformDomain, baseUrl, previewUrl, databaseUrl: w.database.url }
  const snapshots = join(w.dir, `edge-${started++}`)
  const child = fork(join(import.meta.dirname, 'edge-process.ts'), [JSON.stringify(options), w.config.storage.url, snapshots])
  stack.defer(() => void child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

const liveEdges = async () => (await w.db.selectFrom('edges').select('id').execute()).length

async function twoEdges(): Promise<[EdgeProcess, EdgeProcess]> {
  const before = await liveEdges()
  const edges: [EdgeProcess, EdgeProcess] = [await startEdge(), await startEdge()]
  await expect.poll(liveEdges).toBe(before + 2)
  for (const { port } of edges) await expect.poll(async () => (await ask(port, '/', { host: site.host })).status).toBe(200)
  return edges
}

async function end({ child }: EdgeProcess): Promise<void> {
  child.kill('SIGTERM')
  await once(child, 'exit')
}

/** Activates a side. Answers after how many milliseconds the answer came. */
async function activate(side: number): Promise<number> {
  const startedAt = performance.now()
  const { status, body } = await w.call(`POST /api/v1/deploys/${site.sides[side]}/activate`, { key: project.key })
  expect([status, body.status]).toEqual([200, 'active'])
  return performance.now() - startedAt
}

/** Activates both sides in turn, a few times. Answers how long the fastest answer took: the machine may be busy. */
async function fastestOf(times: number): Promise<number> {
  const took: number[] = []
  for (let i = 0; i < times; i++) took.push(await activate(i % 2))
  return Math.min(...took)
}

const sideAt = async ({ port }: EdgeProcess) => /side \d/.exec((await ask(port, '/', { host: site.host })).body.toString())?.[0]

/** Activates both sides in turn. Answers how often an edge did not serve the new page at the first request after the answer. */
async function countStale(edges: readonly EdgeProcess[], times: number): Promise<number> {
  let stale = 0
  for (let i = 0; i < times; i++) {
    await activate(i % 2)
    for (const served of await Promise.all(edges.map(sideAt))) if (served !== `side ${i % 2}`) stale += 1
  }
  return stale
}

test('10: an edge that is stopped delays answers by a second, until it counts as gone', async () => {
  const [running, stopped] = await twoEdges()
  expect(await countStale([running, stopped], activations)).toBe(0)
  stopped.child.kill('SIGSTOP')
  const stoppedAt = performance.now()
  const delays: number[] = []
  for (const side of [0, 1, 0]) {
    delays.push(await activate(side))
    expect(await sideAt(running)).toBe(`side ${side}`)
  }
  for (const delay of delays) expect(delay).toBeGreaterThan(0.9 * waitMs)
  expect(Math.min(...delays)).toBeLessThan(2 * waitMs)
  await pause(untilForgottenMs - (performance.now() - stoppedAt))
  const later = await fastestOf(4)
  expect(later).toBeLessThan(waitMs)
  expect(await sideAt(running)).toBe('side 1')
  report(
    '10',
    `${delays.map(Math.round).join(', ')} ms per activation with a stopped edge, then ${Math.round(later)} ms`,
    '1000 ms',
  )

  stopped.child.kill('SIGCONT')
  await expect.poll(() => sideAt(stopped)).toBe('side 1')
  // it counts again with its next heartbeat
  await pause(6000)
  expect(await countStale([running, stopped], activations)).toBe(0)
  await Promise.all([end(running), end(stopped)])
  expect(await liveEdges()).toBe(0)
})

test('10: an edge that was killed is waited for until it counts as gone', async () => {
  const [running, killed] = await twoEdges()
  killed.child.kill('SIGKILL')
  await once(killed.child, 'exit')
  const killedAt = performance.now()
  expect(await activate(0)).toBeGreaterThan(0.9 * waitMs)
  expect(await sideAt(running)).toBe('side 0')
  await pause(untilForgottenMs - (performance.now() - killedAt))
  expect(await fastestOf(4)).toBeLessThan(waitMs)
  expect(await countStale([running], activations)).toBe(0)
  await end(running)
})

test('10: after a crash of PostgreSQL, which empties the tables of the edges, they are waited for again', async () => {
  await w.db.deleteFrom('edges').execute()
  const edges = await twoEdges()
  await postgres.crash(500)
  await expect.poll(() => liveEdges().catch(() => 0)).toBe(2)
  await expect.poll(() => activate(0).catch(() => undefined)).toBeDefined()
  expect(await countStale(edges, activations)).toBe(0)
  await Promise.all(edges.map(end))
})
