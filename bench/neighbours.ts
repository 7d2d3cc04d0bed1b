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
import { withStack } from './stack.ts'

// What hostile builds in every slot cost those who visit sites and call the api: latencies through the real processes, idle and
// under each abuse in turn, in several rounds. Ratios are taken within a round. At most twice the idle p99 is the aim.
//   npx node bench/neighbours.ts [rounds] [what the abuse's name starts with] [folders to build in instead, one after the other ...]
// Folders on other file systems tell what is the file system's own: ext4 without a journal looks through every file removed in the last
// minutes for each new one, up to a millisecond in the kernel, and a kernel that does not preempt itself keeps neighbours waiting.

const measureMs = 10_000
const visitsPerSecond = 150
const callsPerSecond = 50
const wallSeconds = Math.ceil((measureMs / 1000) * 1.5) + 6

// one project fills every slot, as several hostile ones would
const settings = { PLINTH_BUILD_TIMEOUT: `${wallSeconds}s`, PLINTH_BUILD_MEMORY: '1g', PLINTH_BUILDS_PER_PROJECT: '256' }

interface Api {
  readonly socketPath: string
  readonly headers: { readonly authorization: string }
}

const everywhere = (program: string) =>
  `for (let i = 0; i < 24; i++) require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(program)}], { stdio: 'inherit' })`
const abuses: Readonly<Record<string, string>> = {
  'spinning, 24 processes a build': everywhere('for (;;);'),
  'taking and giving memory': everywhere('for (;;) { Buffer.alloc(20 * 1048576, 1) }'),
  'writing and syncing files': `const fs = require('node:fs'); for (let i = 0; ; i++) { fs.writeFileSync('f' + i % 8, Buffer.alloc(64 * 1048576, i), { flush: true }) }`,
  'making and removing files': `const fs = require('node:fs'); for (;;) { for (let i = 0; i < 20000; i++) fs.writeFileSync('f' + i, 'x'); for (let i = 0; i < 20000; i++) fs.unlinkSync('f' + i) }`,
  'printing without end': `const text = 'y'.repeat(1000) + '\\n'; for (;;) { require('node:fs').writeSync(1, text); const end = Date.now() + 1; while (Date.now() < end); }`,
  'starting processes without end': `const { spawn } = require('node:child_process'); const go = () => spawn('true').on('exit', go).on('error', () => setTimeout(go, 1)); for (let i = 0; i < 100; i++) go()`,
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
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
  const { key, site } = demo
  const api = { socketPath: config.sockets.api, headers: { authorization: `Bearer ${key}` } }
  const visit = openCaller({ host: '127.0.0.1', port: config.http.port, path: '/', headers: { host: new URL(site.url).host } })
  const call = openCaller({ ...api, path: '/api/v1/sites' })
  const measureBoth = async () => {
    const [visits, calls] = await Promise.all([measure(visit, visitsPerSecond), measure(call, callsPerSecond)])
    return { visits, calls }
  }
  // builds of one site would wait for each other
  const sites: string[] = []
  for (let slot = 0; slot < config.build.slots; slot++) {
    const made = { name: `bench ${slot}`, subdomain: `bench-${randomUUID()}` }
    sites.push((await apiOnSocket(config.sockets.api)('POST /api/v1/sites', key, made)).body.id)
  }
  for (let warm = 0; warm < 2; warm++) await measureBoth()

  console.log('p99 in ms, of visits and of api calls       idle          under abuse        ratio   how the builds ended')
  for (const [name, program] of chosen) {
    const ratios = { visits: [] as number[], calls: [] as number[] }
    for (let round = 0; round < Number(rounds); round++) {
      const idle = await measureBoth()
      const building = await Promise.all(sites.map((id) => deploy(api, id, program)))
      await pause(3000)
      const busy = await measureBoth()
      const ended = await Promise.all(building.map((id) => untilEnded(api, id)))
      ratios.visits.push(busy.visits / idle.visits)
      ratios.calls.push(busy.calls / idle.calls)
      const pair = ({ visits, calls }: { visits: number; calls: number }) =>
        `${visits.toFixed(1)} ${calls.toFixed(1)}`.padStart(14)
      const both = `${(busy.visits / idle.visits).toFixed(2)} ${(busy.calls / idle.calls).toFixed(2)}`.padStart(14)
      console.log(name.padEnd(38), pair(idle), pair(busy).padStart(18), both, ' ', ended.join(' | '))
    }
    console.log(`${name}, median ratio:`, median(ratios.visits).toFixed(2), median(ratios.calls).toFixed(2))
  }
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

/** Calls at a fixed rate, whether or not earlier calls have ended. Answers the 99th percentile in ms. */
async function measure(once: () => Promise<void>, perSecond: number): Promise<number> {
  const calls: Promise<number>[] = []
  const began = performance.now()
  for (let due = began; due < began + measureMs; due += 1000 / perSecond) {
    await pause(Math.max(0, due - performance.now()))
    const start = performance.now()
    calls.push(once().then(() => performance.now() - start))
  }
  const sorted = (await Promise.all(calls)).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
}

function openCaller(target: object): () => Promise<void> {
  const agent = new Agent({ keepAlive: true })
  return async () => {
    const outgoing = request({ ...target, agent }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    await buffer(response)
    if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode}`)
  }
}
