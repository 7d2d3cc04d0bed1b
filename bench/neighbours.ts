import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { buffer, json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { apiOnSocket } from '../infra/local/api-client.ts'
import type { Stack } from '../infra/local/stack.ts'
import { type MadeEntry, tarGz } from '../test/infra/archives.ts'
import { startBareServer } from './child-server.ts'
import { withStack } from './stack.ts'
import { median, quantile } from './statistics.ts'
import { watchStolen } from './stolen.ts'

// What hostile builds in every slot cost those who visit sites and call the api: latencies through the real processes, idle and
// under each abuse in turn, in several rounds. Ratios are taken within a round. At most twice the idle p99 is the aim.
//   npm run bench neighbours -- [rounds] [what the abuse's name starts with] [folders to build in instead, one after the other ...]
// A bare Node server is measured beside them: what grows there too is the machine's own, such as a kernel that does not preempt itself.
// Rounds in which the hypervisor gave much of the processor to other guests do not count.
// Folders on other file systems tell what is the file system's own: ext4 without a journal looks through every file removed in the last
// minutes for each new one, up to a millisecond in the kernel.

const perSecond = { visits: 150, api: 50, bare: 100 } as const
type Neighbour = keyof typeof perSecond
type OfEach = Readonly<Record<Neighbour, number>>
const neighbours = Object.keys(perSecond) as Neighbour[]
/** Long enough that a collection of garbage, which holds up a few answers every some seconds, does not decide over the slowest hundredth. */
const measureMs = 30_000
/** Share of the processor's time. */
const mostStolen = 0.05
const wallSeconds = Math.ceil((measureMs / 1000) * 1.5) + 6

// one project fills every slot, as several hostile ones would
const settings = { PLINTH_BUILD_TIMEOUT: `${wallSeconds}s`, PLINTH_BUILD_MEMORY: '1g', PLINTH_BUILDS_PER_PROJECT: '256' }

interface Api {
  readonly socketPath: string
  readonly headers: { readonly authorization: string }
}

const daemons = (program: string) =>
  `for (let i = 0; i < 24; i++) require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(program)}], { stdio: 'inherit', detached: true })`
const abuses: Readonly<Record<string, string>> = {
  'spinning, 24 daemons a build': daemons('for (;;);'),
  'taking and giving memory': daemons('for (;;) { Buffer.alloc(20 * 1048576, 1) }'),
  'starting processes without end': `const { spawn } = require('node:child_process'); const go = () => spawn('true').on('exit', go).on('error', () => setTimeout(go, 1)); for (let i = 0; i < 100; i++) go()`,
  'opening descriptors without end': `const fs = require('node:fs'); for (;;) { const open = []; try { for (;;) open.push(fs.openSync('package.json')) } catch {} for (const fd of open) fs.closeSync(fd) }`,
  'printing without end': `const text = 'y'.repeat(1000) + '\\n'; for (;;) { require('node:fs').writeSync(1, text); const end = Date.now() + 1; while (Date.now() < end); }`,
  'making and removing deep trees': `const fs = require('node:fs'); const top = process.cwd(); for (;;) { for (let i = 0; i < 2000; i++) { fs.mkdirSync('d'); process.chdir('d') } process.chdir(top); require('node:child_process').execFileSync('rm', ['-rf', 'd']) }`,
  'making and removing files': `const fs = require('node:fs'); for (;;) { for (let i = 0; i < 20000; i++) fs.writeFileSync('f' + i, 'x'); for (let i = 0; i < 20000; i++) fs.unlinkSync('f' + i) }`,
  'writing and syncing files': `const fs = require('node:fs'); for (let i = 0; ; i++) { fs.writeFileSync('f' + i % 8, Buffer.alloc(64 * 1048576, i), { flush: true }) }`,
}

const [rounds = '3', wanted = '', ...folders] = process.argv.slice(2)
const chosen = Object.entries(abuses).filter(([name]) => name.startsWith(wanted))
await withStack(measureAbuses, settings)
for (const folder of folders) {
  console.log(`builds in ${folder}`)
  const dir = await mkdtemp(join(folder, 'plinth-bench-'))
  // the users of builds have to pass through
  await chmod(dir, 0o711)
  await withStack(measureAbuses, { ...settings, PLINTH_BUILD_DIR: join(dir, 'builds') })
  await rm(dir, { recursive: true })
}

async function measureAbuses({ config, demo }: Stack): Promise<void> {
  if (!demo?.site) throw new Error('there is no demo site')
  await using bare = await startBareServer()
  const { key, site } = demo
  const api = { socketPath: config.sockets.api, headers: { authorization: `Bearer ${key}` } }
  const loopback = { host: '127.0.0.1', path: '/' }
  const callers = {
    visits: openCaller({ ...loopback, port: config.http.port, headers: { host: new URL(site.url).host } }),
    api: openCaller({ ...api, path: '/api/v1/sites' }),
    bare: openCaller({ ...loopback, port: bare.port }),
  }
  // builds of one site would wait for each other
  const sites: string[] = []
  for (let slot = 0; slot < config.build.slots; slot++) {
    const made = { name: `bench ${slot}`, subdomain: `bench-${randomUUID()}` }
    sites.push((await apiOnSocket(config.sockets.api)('POST /api/v1/sites', key, made)).body.id)
  }
  for (let warm = 0; warm < 2; warm++) await measureAll(callers)

  console.log(`p99 in ms of ${neighbours.join(', ')}`)
  const heads = ['idle', 'under abuse', 'ratio'].map((head) => head.padStart(18))
  console.log(''.padEnd(34), heads.join('   '), '  stolen          how the builds ended')
  for (const [name, program] of chosen) {
    const ratios: OfEach[] = []
    for (let tries = 0; ratios.length < Number(rounds) && tries < 3 * Number(rounds); tries++) {
      const idle = await measureAll(callers)
      const building = await Promise.all(sites.map((id) => deploy(api, id, program)))
      await pause(3000)
      const busy = await measureAll(callers)
      const ended = await Promise.all(building.map((id) => untilEnded(api, id)))
      const ratio = ofEach((neighbour) => busy.p99[neighbour] / idle.p99[neighbour])
      const counts = Math.max(idle.stolen, busy.stolen) <= mostStolen
      if (counts) ratios.push(ratio)
      const stolen = [idle, busy].map((phase) => `${(100 * phase.stolen).toFixed(1)} %`).join(', ')
      const end = counts ? ended.join(' | ') : 'not counted'
      console.log(name.padEnd(34), row(idle.p99, 1), ' ', row(busy.p99, 1), ' ', row(ratio, 2), ' ', stolen.padEnd(15), end)
    }
    const medians = ofEach((neighbour) => median(ratios.map((ratio) => ratio[neighbour])))
    console.log(`${`${name}, median of ${ratios.length}`.padEnd(76)} ${row(medians, 2)}`)
  }
}

function ofEach(value: (neighbour: Neighbour, index: number) => number): OfEach {
  return Object.fromEntries(neighbours.map((neighbour, index) => [neighbour, value(neighbour, index)])) as OfEach
}

function row(values: OfEach, digits: number): string {
  return neighbours.map((neighbour) => values[neighbour].toFixed(digits).padStart(6)).join('')
}

async function deploy(api: Api, siteId: string, program: string): Promise<string> {
  const script = {
    'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'node abuse.cjs' } }),
    'abuse.cjs': program,
  }
  const body = tarGz(Object.entries(script).map(([name, data]): MadeEntry => ({ name, data })))
  const outgoing = request({ ...api, path: `/api/v1/sites/${siteId}/deploys`, method: 'POST' })
  outgoing.setHeader('content-type', 'application/gzip')
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return ((await json(response)) as { id: string }).id
}

async function untilEnded(api: Api, id: string): Promise<string> {
  for (;;) {
    const outgoing = request({ ...api, path: `/api/v1/deploys/${id}` }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const { status, error } = (await json(response)) as { status: string; error: string | null }
    if (status !== 'queued' && status !== 'building') return `${status}: ${error?.split('\n', 1)[0]?.slice(0, 60)}`
    await pause(50)
  }
}

type Caller = () => Promise<void>

interface Measured {
  /** In ms. */
  readonly p99: OfEach
  /** Share of the processor's time. */
  readonly stolen: number
}

async function measureAll(callers: Readonly<Record<Neighbour, Caller>>): Promise<Measured> {
  const stolen = await watchStolen()
  const times = await Promise.all(neighbours.map((neighbour) => measure(callers[neighbour], perSecond[neighbour])))
  return { p99: ofEach((_, i) => quantile(times[i] ?? [], 0.99)), stolen: await stolen() }
}

/** Calls at a fixed rate, whether or not earlier calls have ended. Answers their times in ms. */
async function measure(call: Caller, rate: number): Promise<number[]> {
  const calls: Promise<number>[] = []
  const began = performance.now()
  for (let due = began; due < began + measureMs; due += 1000 / rate) {
    await pause(Math.max(0, due - performance.now()))
    const start = performance.now()
    calls.push(call().then(() => performance.now() - start))
  }
  return Promise.all(calls)
}

function openCaller(target: object): Caller {
  const agent = new Agent({ keepAlive: true })
  return async () => {
    const outgoing = request({ ...target, agent }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    await buffer(response)
    if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode}`)
  }
}
