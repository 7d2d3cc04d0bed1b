import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { addDays, moscowDay } from '../../core/traffic-days.ts'
import { ask } from '../edge/test-edge.ts'
import { chrome } from '../edge/traffic/hits.ts'
import { deployFiles, makeSite } from '../make.ts'
import { type World, world } from '../world.ts'
import { type KillablePostgres, startKillablePostgres } from './killable-postgres.ts'
import { report } from './platform.ts'

// A generator that knows what it has sent, through two edge processes and over midnight in Moscow, while edges, their threads that count and
// PostgreSQL are killed: afterwards views, visitors and bytes of every site and day are what was sent. PLINTH_DRIFT_SECONDS=600 PLINTH_DRIFT_RATE=3000 makes it long.

const seconds = Number(process.env['PLINTH_DRIFT_SECONDS'] ?? 60)
const rate = Number(process.env['PLINTH_DRIFT_RATE'] ?? 150)
const siteCount = 5
/** Each asks too rarely to be taken for a program. */
const visitorCount = Math.max(200, rate)
/** A hit is on disk 250 ms after its answer; the rest is for a busy machine. */
const onDiskMs = 1000
const dayMs = 86_400_000

const files = [
  { path: 'index.html', content: `<!doctype html>${'home '.repeat(300)}` },
  { path: 'about.html', content: '<!doctype html>about' },
  { path: 'style.css', content: 'body{}' },
]
const requests = [
  { path: '/', isView: true },
  { path: '/about', isView: true },
  { path: '/style.css', isView: false },
]

interface Edge {
  readonly name: string
  child: ChildProcess
  port: number
  isOpen: boolean
  inFlight: number
}

const stack = new AsyncDisposableStack()
const agent = new Agent({ keepAlive: true, maxSockets: 200 })
const secretKey = randomBytes(32).toString('base64')
let w: World
let postgres: KillablePostgres
let sites: { readonly id: string; readonly host: string }[]
beforeAll(async () => {
  postgres = stack.use(await startKillablePostgres())
  const { url } = postgres
  // the server ends with its only database
  const forbidConnections = () => Promise.reject(new Error('not here'))
  w = stack.use(await world({ database: { url, forbidConnections, [Symbol.asyncDispose]: () => Promise.resolve() } }))
  stack.defer(() => agent.destroy())
  const project = await w.project('enterprise')
  sites = []
  for (let n = 0; n < siteCount; n++) {
    const { id, subdomain } = await makeSite(w, project)
    await deployFiles(w, project, id, files)
    sites.push({ id, host: `${subdomain}.${w.config.urls.platformDomain}` })
  }
})
afterAll(() => stack.disposeAsync())

/** Half of the test is before midnight, by the clock of the edges. */
let shiftMs = 0
const now = () => Date.now() + shiftMs
const midnightAfter = (ms: number) => Date.parse(`${addDays(moscowDay(ms), 1)}T00:00:00+03:00`)

async function start(edge: Edge): Promise<void> {
  const { platformDomain, base: baseUrl, preview: previewUrl } = w.config.urls
  const options = JSON.stringify({ platformDomain, baseUrl, previewUrl, databaseUrl: w.database.url })
  const args = [options, w.config.storage.url, join(w.dir, edge.name), secretKey]
  const NODE_OPTIONS = `--import=${join(import.meta.dirname, 'shifted-clock-process.ts')}`
  const child = fork(join(import.meta.dirname, 'edge-process.ts'), args, {
    env: { ...process.env, NODE_OPTIONS, SHIFT_MS: String(shiftMs) },
  })
  stack.defer(() => void child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  Object.assign(edge, { child, port })
  const head = { host: sites[0]?.host ?? '', method: 'HEAD' }
  await expect.poll(async () => (await ask(port, '/', head)).status, { timeout: 60_000 }).toBe(200)
  // while an edge does not know the salts yet, visitors count twice
  await pause(onDiskMs)
  edge.isOpen = true
}

/** Stops sending to an edge, and waits until what it has answered is on its disk. */
async function quiet(edge: Edge): Promise<void> {
  edge.isOpen = false
  while (edge.inFlight > 0) await pause(5)
  await pause(onDiskMs)
}

async function kill(edge: Edge): Promise<void> {
  edge.isOpen = false
  edge.child.kill('SIGKILL')
  await once(edge.child, 'exit')
}

interface Truth {
  views: number
  bytes: number
  readonly visitors: Set<number>
}

/** By site and day. */
const truth = new Map<string, Truth>()

/** Sends one request and notes what was answered. @returns false when there was no whole answer */
async function send(edge: Edge, n: number): Promise<boolean> {
  const site = sites[n % siteCount]
  const wanted = requests[Math.floor(n / siteCount) % requests.length]
  if (!site || !wanted) throw new Error('nothing to send')
  const visitor = n % visitorCount
  const address = `10.0.${visitor >> 8}.${visitor & 255}`
  const headers = { host: site.host, 'user-agent': chrome, 'accept-language': 'ru', 'x-forwarded-for': address }
  const day = moscowDay(now())
  edge.inFlight += 1
  try {
    const outgoing = request({ port: edge.port, path: wanted.path, agent, headers }).end()
    const [response] = await once(outgoing, 'response')
    let bytes = 0
    for await (const chunk of response) bytes += chunk.length
    expect(response.statusCode).toBe(200)
    const id = `${site.id} ${day}`
    const known = truth.get(id) ?? { views: 0, bytes: 0, visitors: new Set() }
    truth.set(id, known)
    known.bytes += bytes
    if (!wanted.isView) return true
    known.views += 1
    known.visitors.add(visitor)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error
    return false
  } finally {
    edge.inFlight -= 1
  }
}

/** Sends at the rate to the open edges in turn until the instant, but nothing while an answer could be on either side of midnight. */
async function generate(edges: readonly Edge[], midnight: number, until: number): Promise<number> {
  const sending = new Set<Promise<boolean>>()
  const startedAt = performance.now()
  let sent = 0
  let skippedMs = 0
  while (now() < until) {
    const beforeMs = midnight - now()
    if (beforeMs > -20 && beforeMs < 500) {
      const from = performance.now()
      await Promise.all(sending)
      while (now() < midnight + 20) await pause(5)
      skippedMs += performance.now() - from
    }
    const due = ((performance.now() - startedAt - skippedMs) / 1000) * rate
    const open = edges.filter(({ isOpen }) => isOpen)
    for (; sent < due; sent++) {
      const edge = open[sent % open.length]
      if (!edge) continue
      const one = send(edge, sent).finally(() => sending.delete(one))
      sending.add(one)
    }
    await pause(5)
  }
  expect(await Promise.all(sending)).not.toContain(false)
  return sent
}

interface Counted {
  readonly site: string
  readonly views: number
  readonly bytes: number
  readonly visitors: number
}

async function counted(): Promise<Counted[]> {
  const rows = await w.db
    .selectFrom('traffic_days')
    .selectAll()
    .where(
      'site_id',
      'in',
      sites.map(({ id }) => id),
    )
    .execute()
  for (const row of rows) {
    const human = { views: row.human_views, visitors: row.human_visitors, bytes: row.human_bytes }
    expect(human).toEqual({ views: row.views, visitors: row.visitors, bytes: row.bytes })
  }
  const all = rows.map(({ site_id, day, views, bytes, visitors }) => ({ site: `${site_id} ${day}`, views, bytes, visitors }))
  return all.sort((a, b) => a.site.localeCompare(b.site))
}

const expected = (): Counted[] =>
  [...truth]
    .map(([site, { views, bytes, visitors }]) => ({ site, views, bytes, visitors: visitors.size }))
    .sort((a, b) => a.site.localeCompare(b.site))

const viewsOf = (rows: readonly Counted[]) => rows.reduce((sum, { views }) => sum + views, 0)

/** Kills an edge at a moment at which it answers. Returns how many milliseconds of its views are not counted. */
async function killWhileAnswering(edge: Edge): Promise<number> {
  const before = viewsOf(expected())
  const startedAt = performance.now()
  const killed = pause(3000).then(() => kill(edge))
  const sending: Promise<boolean>[] = []
  for (let n = 0; edge.isOpen; n++) {
    sending.push(send(edge, n))
    await pause(1000 / rate)
  }
  await Promise.all(sending)
  const tookMs = performance.now() - startedAt
  await killed
  await start(edge)
  const all = viewsOf(expected())
  const afterRestart = async () => {
    await pause(2 * onDiskMs)
    return viewsOf(await counted())
  }
  // the last segments of the killed edge are applied by the next one
  let views = await afterRestart()
  for (let last = -1; last !== views; ) [last, views] = [views, await afterRestart()]
  expect(views).toBeLessThanOrEqual(all)
  expect(views).toBeGreaterThan(before)
  return Math.round(((all - views) / (all - before)) * tookMs)
}

// with the starts of the edges, and what is waited for at the end
vi.setConfig({ testTimeout: seconds * 1000 + 300_000 })

test('K02 K07: what two edges answered over midnight is counted exactly, whatever is killed', async () => {
  const startMs = Date.now() + 15_000
  const midnight = midnightAfter(startMs + dayMs)
  shiftMs = midnight - (startMs + (seconds / 2) * 1000)
  const edges = ['edge-1', 'edge-2'].map(
    (name): Edge => ({ name, child: undefined as never, port: 0, isOpen: false, inFlight: 0 }),
  )
  const [one, two] = edges
  if (!one || !two) throw new Error('two edges')
  await start(one)
  await start(two)
  const share = async (part: number) => {
    while (now() < midnight + (part - 0.5) * seconds * 1000) await pause(20)
  }
  const generating = generate(edges, midnight, midnight + (seconds / 2) * 1000)
  let endedThreads = 0
  /** Ends the threads while hits come in, before, over and after midnight. What they had not written is still in the memory of their edges. */
  const endThreads = async () => {
    for (let part = 0.05; part < 0.95; part += 0.075) {
      await share(part)
      const edge = edges[endedThreads % edges.length]
      if (edge?.isOpen && edge.child.kill('SIGUSR2')) endedThreads += 1
    }
  }
  const faults = async () => {
    for (const [part, edge] of [[0.1, one] as const, [0.6, two] as const]) {
      await share(part)
      await quiet(edge)
      await kill(edge)
      await start(edge)
      await share(part + 0.2)
      await postgres.crash(2000)
    }
  }
  const [sent] = await Promise.all([generating, faults(), endThreads()])
  await expect.poll(counted, { timeout: 60_000 }).toEqual(expected())
  expect(new Set(expected().map(({ site }) => site.split(' ')[1])).size).toBe(2)
  const faultsMade = `2 kills of edges, ${endedThreads} of threads that count, 2 of PostgreSQL`
  expect(endedThreads).toBeGreaterThan(4)
  report('stats_drift', `0 of ${sent} requests at ${rate} a second, ${faultsMade}`, '0')

  const lostMs = await killWhileAnswering(one)
  report('what a killed edge loses', `views of ${lostMs} ms`, '250 ms on an idle machine')
  expect(lostMs).toBeLessThanOrEqual(onDiskMs)
})
