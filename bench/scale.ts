import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Config } from '../infra/config.ts'
import { startMainProcess } from '../infra/local/main-process.ts'
import { platformConfig } from './platform-caddy.ts'
import { openLoop } from './scale/open-loop.ts'
import { makeSites, pathOf, type Sites, subdomainOf, type Visit } from './scale/sites.ts'
import { median, quantile } from './statistics.ts'
import { watchStolen } from './stolen.ts'

// What many sites cost the edge: the time until it serves from its snapshot (a second of which it waits for PostgreSQL), its memory, and how long visitors wait at a fixed rate. An edge with
// ten sites and one with all of them take turns, so that a busy machine disturbs both alike. Sites are chosen by Zipf's law (s = 1) and so are the
// files of a site, or, with --even, all files of a site alike, so that most requests are the first one of a file. PostgreSQL is away. With --cold only the large edge is measured, each time
// with an empty page cache, which needs root because it is that of the whole machine.
//   npm run bench scale -- [--sites 10000] [--files 200] [--rate 1500] [--seconds 5] [--rounds 7] [--even]
//   npm run bench scale -- --cold [--sites 2000] [--files 50] …

const { values } = parseArgs({
  options: {
    even: { type: 'boolean', default: false },
    cold: { type: 'boolean', default: false },
    sites: { type: 'string' },
    files: { type: 'string' },
    rate: { type: 'string', default: '1500' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '7' },
  },
})
const many: Sites = {
  sites: Number(values.sites ?? (values.cold ? 2000 : 10_000)),
  files: Number(values.files ?? (values.cold ? 50 : 200)),
}
const rate = Number(values.rate)
const rounds = Number(values.rounds)

interface Measured {
  readonly sites: number
  readonly pid: number
  /** The requests of each round. */
  readonly requests: readonly (readonly Buffer[])[]
  readonly socketPath: string
}

await using stack = new AsyncDisposableStack()
if (values.cold) await measureCold()
else await measureScale()

async function measureScale(): Promise<void> {
  const few = await start({ ...many, sites: Math.min(10, many.sites) })
  const all = await start(many)
  // a gigabyte that is still on its way to the disk would disturb the first rounds
  execFileSync('sync')
  giveWay()
  // the first round warms up; the caches are full after about 100,000 requests
  const times = new Map([few, all].map((edge) => [edge, [] as Float64Array[]]))
  for (let round = 0; round <= rounds; round++) {
    const stolen = await watchStolen()
    const figures: string[] = []
    for (const edge of round % 2 ? [few, all] : [all, few]) {
      const took = await openLoop({ ...edge, requests: edge.requests[round] ?? [], rate })
      if (round > 0) times.get(edge)?.push(took)
      figures.push(`${edge.sites} sites ${shown(took)}`)
    }
    const what = round === 0 ? 'warm-up' : `round ${round}`
    console.log(`${what}: ${figures.toSorted().join('   ')}   stolen ${(100 * (await stolen())).toFixed(1)} %`)
  }
  const p99 = (edge: Measured) => (times.get(edge) ?? []).map((took) => quantile([...took], 0.99))
  const ofFew = p99(few)
  const ratios = p99(all).map((ms, round) => ms / (ofFew[round] ?? Number.NaN))
  const all99 = [few, all].map((edge) => median(p99(edge)).toFixed(2))
  console.log(`p99 ${all99.join(' and ')} ms (medians of ${rounds} rounds), ratio ${median(ratios).toFixed(2)}`)
  console.log(`memory of the edge with ${all.sites} sites: ${await memory(all.pid)}`)
}

async function measureCold(): Promise<void> {
  const edge = await start(many)
  giveWay()
  for (let round = 0; round < rounds; round++) {
    execFileSync('sync')
    await writeFile('/proc/sys/vm/drop_caches', '3')
    const took = await openLoop({ ...edge, requests: edge.requests[round] ?? [], rate })
    console.log(`round ${round + 1}, page cache dropped: ${shown(took)}, max ${Math.max(...took).toFixed(0)} ms`)
  }
  console.log(`memory of the edge with ${edge.sites} sites: ${await memory(edge.pid)}`)
}

/**
 * Lets the edge go first where both want a processor. The clients of a real edge run on other machines, but this process never sleeps, and on two
 * processors a thread of the edge would wait for the end of its time slice.
 */
function giveWay(): void {
  setPriority(10)
}

function shown(took: Float64Array): string {
  return `p50 ${quantile([...took], 0.5).toFixed(2)} p99 ${quantile([...took], 0.99).toFixed(2)} ms`
}

/** Makes the sites, and starts an edge that knows them from its snapshot only. */
async function start(wanted: Sites): Promise<Measured> {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const config = await platformConfig(dir, { PLINTH_DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none' })
  const count = rate * Number(values.seconds)
  const visits = Array.from({ length: rounds + 1 }, () => chooseVisits(wanted, count))
  await makeSites(config, wanted, visits.flat())
  const startedAt = performance.now()
  const edge = stack.use(await startMainProcess('edge', config, join(dir, 'logs'), new AbortController().signal))
  const readyMs = performance.now() - startedAt
  const pid = edge.pid
  console.log(
    `${wanted.sites} sites of ${wanted.files} files: ready after ${(readyMs / 1000).toFixed(2)} s, ${await memory(pid)}`,
  )
  return {
    sites: wanted.sites,
    pid,
    requests: visits.map((round) => round.map((visit) => requestOf(config, visit))),
    socketPath: config.sockets.edge,
  }
}

function chooseVisits({ sites, files }: Sites, count: number): Visit[] {
  const site = openZipf(sites)
  const file = values.even ? () => Math.floor(Math.random() * files) : openZipf(files)
  return Array.from({ length: count }, () => ({ site: site(), file: file() }))
}

/** Draws numbers from 0 by Zipf's law with s = 1: the one of rank k is k times as rare as the first. */
function openZipf(size: number): () => number {
  let sum = 0
  const sums = Float64Array.from({ length: size }, (_, i) => (sum += 1 / (i + 1)))
  return () => {
    const drawn = Math.random() * sum
    let from = 0
    for (let to = size - 1; from < to; ) {
      const middle = (from + to) >>> 1
      if ((sums[middle] ?? 0) > drawn) to = middle
      else from = middle + 1
    }
    return from
  }
}

function requestOf({ urls }: Config, { site, file }: Visit): Buffer {
  const path = `/${pathOf(file)}`.replace(/index\.html$/, '')
  const headers = [`Host: ${subdomainOf(site)}.${urls.platformDomain}`, 'Accept-Encoding: gzip, br', 'X-Forwarded-For: 192.0.2.1']
  return Buffer.from(`GET ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
}

async function memory(pid: number): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const mib = (name: string) => (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024).toFixed(0)
  return `${mib('VmRSS')} MiB, at most ${mib('VmHWM')} MiB`
}
