import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startGateServers } from './edge/gate-servers.ts'
import { connections, h2load, host, isInstalled, type Load, wrk } from './edge/load.ts'
import { ruleCase, startRuleServers } from './edge/rule-servers.ts'
import { type MeasuredServer, startServers } from './edge/servers.ts'
import { startTrafficServers } from './edge/traffic-servers.ts'
import { mean, median, standardError } from './statistics.ts'
import { watchStolen } from './stolen.ts'

// How many requests the edge answers in a second beside nginx, Caddy's file server, sirv and bare Node, which serve the same files.
// The servers take turns within each case of each round, in an order that changes from round to round, and ratios are taken within a round, so that a busy machine disturbs all alike.
// With --rules the edge is measured beside itself, with 0, 10 and 2,100 rules in `_redirects`.
// With --closed it is measured beside itself, with an open site and with a closed one whose visitors have logged in.
// With --traffic it is measured beside itself, without and with counting what it answers for the statistics.
// With --restart, and always with these three, the servers are started again for each round, because equal processes differ by up to 10 % from
// start to start, and means are printed with their standard errors.
// With --servers and --cases only those are measured whose names contain one of the texts, which are separated by commas.
//   npm run bench edge -- [--rules | --closed | --traffic] [--restart] [--servers 'Caddy,bare'] [--cases 'KiB,304'] [--seconds 2] [--rounds 5] [--json <file>]

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    rules: { type: 'boolean', default: false },
    closed: { type: 'boolean', default: false },
    traffic: { type: 'boolean', default: false },
    restart: { type: 'boolean', default: false },
    servers: { type: 'string', default: '' },
    cases: { type: 'string', default: '' },
    json: { type: 'string', default: join(tmpdir(), 'plinth-bench-edge.json') },
  },
})
const seconds = Number(values.seconds)
const rounds = Number(values.rounds)
const isWithItself = values.rules || values.closed || values.traffic
const restarts = isWithItself || values.restart

const warmUpSeconds = 3

/** Whether a name was asked for. */
const isWanted = (name: string, wanted: string) => wanted.split(',').some((text) => name.includes(text))

const script = '/assets/app-D1wrgTda.js'
const files = [
  { path: '/', file: 'index.html', bytes: 4096 },
  { path: script, file: script.slice(1), bytes: 40_960 },
  { path: '/large.bin', file: 'large.bin', bytes: 1_048_576 },
  { path: '/video.bin', file: 'video.bin', bytes: 5 * 1_048_576 },
  // more than the edge ever keeps in memory
  { path: '/streamed.bin', file: 'streamed.bin', bytes: 10 * 1_048_576 },
] as const

/** More files of a megabyte than the edge keeps in memory, asked for one after the other. */
const inTurn = { name: '1 MiB, 200 in turn', count: 200, bytes: 1_048_576, script: 'in-turn.lua' } as const

/** One kind of request; undefined when the server does not take it. */
interface Case {
  readonly name: string
  readonly measure: (server: MeasuredServer, seconds: number) => Promise<Load> | undefined
}

const overHttp = (name: string, path: string, more: readonly string[] = []): Case => ({
  name,
  measure: ({ http, headers = [] }, seconds) => wrk(http, path, [...more, ...headers], seconds),
})
const overHttp2 = (name: string, path: string): Case => ({
  name,
  measure: ({ https }, seconds) => (https === undefined ? undefined : h2load(https, path, seconds)),
})
const all: readonly Case[] = [
  overHttp('4 KiB html', '/'),
  overHttp('40 KiB js', script),
  {
    name: '40 KiB js, br',
    measure: ({ http, headers = [], hasBrotli }, seconds) =>
      hasBrotli ? wrk(http, script, ['Accept-Encoding: br', ...headers], seconds) : undefined,
  },
  {
    name: '304',
    measure: ({ name, http, headers = [] }, seconds) =>
      withETag(name, (tag) => wrk(http, '/', [`If-None-Match: ${tag}`, ...headers], seconds)),
  },
  overHttp('1 MiB', '/large.bin'),
  overHttp('5 MiB', '/video.bin'),
  overHttp('10 MiB', '/streamed.bin'),
  {
    name: inTurn.name,
    measure: ({ http, headers = [] }, seconds) => wrk(http, '/', headers, seconds, join(dir, inTurn.script)),
  },
  ...(values.rules ? [ruleCase] : []),
  ...(isInstalled('h2load') && !isWithItself
    ? [overHttp2('4 KiB, h2', '/'), overHttp2('40 KiB, h2', script), overHttp2('1 MiB, h2', '/large.bin')]
    : []),
]
const cases = all.filter(({ name }) => isWanted(name, values.cases))

const eTags = new Map<string, string>()
const withETag = <T>(name: string, measure: (tag: string) => T) => {
  const tag = eTags.get(name)
  return tag === undefined ? undefined : measure(tag)
}

if (!isInstalled('wrk')) throw new Error('wrk is not installed: apt-get install wrk')
if (!isInstalled('h2load')) console.log('h2load is not installed (apt-get install nghttp2-client): https is left out')

await using stack = new AsyncDisposableStack()
const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
stack.defer(() => rm(dir, { recursive: true, force: true }))
// the workers of nginx have a user of their own
await chmod(dir, 0o755)
const folder = join(dir, 'files')
await mkdir(join(folder, 'assets'), { recursive: true })
for (const { file, bytes } of files) await writeFile(join(folder, file), text(bytes))
if (cases.some(({ name }) => name === inTurn.name)) await writeInTurn()

const startWanted = [
  values.closed && startGateServers,
  values.rules && startRuleServers,
  values.traffic && startTrafficServers,
  startServers,
].find((start) => start !== false)

let names: readonly string[] = []
/** The loads of each case and server, one of each round. */
const results: Load[][][] = cases.map(() => [])
const stolen: number[] = []
if (restarts) for (let round = 0; round < rounds; round++) await measureRounds(1)
else await measureRounds(rounds)
printTable()
await writeJson()

/** Starts the servers, and measures them so many times. */
async function measureRounds(count: number): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const servers = await openServers(join(dir, `round-${stolen.length}`), stack)
  names = servers.map(({ name }) => name)
  for (let round = 0; round < count; round++) {
    const stolenSince = await watchStolen()
    await measureAll(servers, stolen.length)
    stolen.push(await stolenSince())
  }
}

/** Starts the servers, and waits until each answers and has compiled what it does often, which would be counted as its cost. */
async function openServers(dir: string, stack: AsyncDisposableStack): Promise<MeasuredServer[]> {
  await mkdir(dir)
  const started = (await startWanted?.({ files: folder, dir, stack })) ?? []
  const servers = started.filter(({ name }) => isWanted(name, values.servers))
  if (servers.length === 0)
    throw new Error(`no server is named like this; there are ${started.map(({ name }) => name).join(', ')}`)
  for (const server of servers) {
    await check(server)
    await wrk(server.http, '/', server.headers ?? [], warmUpSeconds)
  }
  return servers
}

async function measureAll(servers: readonly MeasuredServer[], round: number): Promise<void> {
  const inOrder = [...servers.entries()]
  const order = round % 2 === 0 ? inOrder : inOrder.toReversed()
  for (const [i, { measure }] of cases.entries()) {
    for (const [j, server] of order) {
      const load = await measure(server, seconds)
      const loads = results[i]
      if (load && loads) loads[j] = [...(loads[j] ?? []), load]
    }
  }
}

async function writeInTurn(): Promise<void> {
  await mkdir(join(folder, 'turn'))
  for (let i = 0; i < inTurn.count; i++) await writeFile(join(folder, 'turn', `${i}.bin`), randomBytes(inTurn.bytes))
  const lines = ['local last = 0', 'request = function()', `  last = (last + 1) % ${inTurn.count}`]
  await writeFile(
    join(dir, inTurn.script),
    [...lines, '  return wrk.format(nil, "/turn/" .. last .. ".bin")', 'end', ''].join('\n'),
  )
}

/** A text that compresses about as well as a script does, to a third. */
function text(bytes: number): string {
  let state = 1
  let made = ''
  while (made.length < bytes) {
    state = (state * 48_271) % 2_147_483_647
    made += `${(state % 2000).toString(36)} `
  }
  return made.slice(0, bytes)
}

/** Waits until a server answers all files as they are, and notes its ETag. */
async function check({ name, http, headers }: MeasuredServer): Promise<void> {
  for (const { path, bytes } of files) {
    for (let attempt = 1; ; attempt++) {
      const answer = await get(http, path, headers).catch((error: Error) => error)
      if (!(answer instanceof Error) && answer.status === 200 && answer.bytes === bytes) {
        if (path === '/' && answer.eTag !== undefined) eTags.set(name, answer.eTag)
        break
      }
      if (attempt === 50) throw new Error(`${name} does not serve ${path}: ${JSON.stringify(answer)}`)
      await pause(100)
    }
  }
}

function get(
  port: number,
  path: string,
  more: readonly string[] = [],
): Promise<{ status: number; bytes: number; eTag: string | undefined }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; bytes: number; eTag: string | undefined }>()
  const headers = Object.fromEntries([`Host: ${host}`, ...more].map((line) => line.split(': ', 2)))
  const outgoing = request({ host: '127.0.0.1', port, path, headers, agent: false }, (response) => {
    buffer(response).then(({ length }) => {
      resolve({ status: response.statusCode ?? 0, bytes: length, eTag: response.headers.etag })
    }, reject)
  })
  outgoing.on('error', reject).end()
  return promise
}

/** Of the rounds: the median rate, its ratio to the first server, the median of the slowest hundredth, and failed requests in all. */
function summary(i: number, j: number) {
  const loads = results[i]?.[j] ?? []
  if (loads.length === 0) return undefined
  const reference = results[i]?.[0] ?? []
  const ratios = loads.map((load, round) => load.requestsPerSecond / (reference[round]?.requestsPerSecond ?? Number.NaN))
  return {
    requests_per_second: (restarts ? mean : median)(loads.map((load) => load.requestsPerSecond)),
    ...(restarts ? geometric(ratios) : { ratio: median(ratios), ratio_error: undefined }),
    p99_ms: loads.every((load) => load.p99Ms !== undefined) ? median(loads.map((load) => load.p99Ms ?? Number.NaN)) : null,
    failed: loads.reduce((sum, load) => sum + load.failed, 0),
  }
}

/** The geometric mean, which noise does not raise as it does the mean of ratios, and its standard error. */
function geometric(ratios: readonly number[]) {
  const logarithms = ratios.map(Math.log)
  const ratio = Math.exp(mean(logarithms))
  return { ratio, ratio_error: Number.isNaN(ratio) ? undefined : ratio * standardError(logarithms) }
}

function printTable(): void {
  const columnWidth = restarts ? 24 : 16
  console.log(
    `\nRequests/s and their ratio to ${names[0]}: ${restarts ? 'means' : 'medians'} of ${rounds} rounds, ${seconds} s each, ${connections} connections.`,
  )
  console.log(' '.repeat(22) + cases.map(({ name }) => name.padStart(columnWidth)).join(''))
  let failures = 0
  for (const [j, name] of names.entries()) {
    const cells = cases.map((_case, i) => {
      const cell = summary(i, j)
      failures += cell?.failed ?? 0
      const ratio = cell && !Number.isNaN(cell.ratio) ? cell.ratio.toFixed(2) : '    '
      const error = cell?.ratio_error === undefined ? '' : ` ± ${cell.ratio_error.toFixed(3)}`
      return (cell ? `${cell.requests_per_second.toFixed(0)}  ${ratio}${error}` : '-').padStart(columnWidth)
    })
    console.log(name.padEnd(22) + cells.join(''))
  }
  const shares = stolen.map((share) => `${(share * 100).toFixed(1)} %`)
  console.log(`Failed requests: ${failures}. Processor time stolen by other guests, by round: ${shares.join(', ')}.`)
}

async function writeJson(): Promise<void> {
  const rows = names.map((name, j) => ({
    server: name,
    cases: Object.fromEntries(
      cases.map((one, i) => [one.name, { ...summary(i, j), rounds: results[i]?.[j]?.map((load) => load.requestsPerSecond) }]),
    ),
  }))
  const machine = { cores: cpus().length, model: cpus()[0]?.model }
  const report = { measured_at: new Date().toISOString(), machine, seconds, rounds, connections, stolen, servers: rows }
  await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`)
  console.log(`All figures: ${values.json}`)
}
