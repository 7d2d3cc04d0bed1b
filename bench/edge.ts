import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { openContent } from '../edge/content.ts'
import { edgeLimits } from '../edge/edge.ts'
import { createHandler } from '../edge/handler.ts'
import { openRouteTable } from '../edge/routes.ts'
import { openDiskCas } from '../infra/cas/disk.ts'
import { storeManifest } from '../infra/cas/manifests.ts'
import { openServer } from '../infra/listen.ts'
import { createLogger } from '../infra/log.ts'
import { startBareServer, startServer } from './child-server.ts'
import { median } from './statistics.ts'

// What the edge costs beside a Node server that only says "ok", measured by wrk: `node bench/edge.ts [seconds per case]`.
// The cases take turns in several rounds, and ratios are taken within a round, so that a busy machine disturbs all alike.

const role = process.argv[2]
if (role === 'edge') await serve()
else await measure(Number(role ?? 2), 5)

/** Runs in a child process, as the bare server does, and prints its port. */
async function serve(): Promise<void> {
  await using opened = new AsyncDisposableStack()
  const { port } = opened.use(await openSite(opened))
  process.stdout.write(`${port}\n`)
  await once(process, 'SIGTERM')
}

async function openSite(opened: AsyncDisposableStack) {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
  opened.defer(() => rm(dir, { recursive: true }))
  const cas = await openDiskCas(join(dir, 'cas'))
  const store = async (path: string, bytes: number) => ({ path, ...(await cas.put(Buffer.alloc(bytes, `${path} `))) })
  const files = [store('index.html', 4096), store('assets/app-D1wrgTda.js', 40_960), store('large.bin', 1_048_576)]
  const sha256 = await storeManifest({ add: cas.put }, await Promise.all(files))
  const log = createLogger('bench', 'info')
  const platformDomain = 'plinth.test'
  const snapshotDir = join(dir, 'routes')
  const routes = opened.use(await openRouteTable({ platformDomain, snapshotDir, log: createLogger('bench', 'silent') }))
  const site = { site_id: 'bench', subdomain: 'bench', enabled: true, suspended: false, trashed: false, version: 1 }
  const shown = { deploy_id: 'bench', manifest_sha256: sha256, previews: [], former: [], domains: [] }
  routes.replaceAll([{ ...site, ...shown }])
  const content = openContent(cas)
  return await openServer(
    createHandler({ platformDomain, baseUrl: 'http://base.test', previewUrl: 'http://preview.test', routes, content, log }),
    { port: 0 },
    edgeLimits,
  )
}

async function measure(seconds: number, rounds: number): Promise<void> {
  if (spawnSync('wrk', ['--version']).error) throw new Error('wrk is not installed: apt-get install wrk')
  await using bare = await startBareServer()
  await using edge = await startServer(import.meta.filename, 'edge')
  const tag = await tagOf(edge.port)
  const cases: readonly [string, number, string, readonly string[]][] = [
    ['bare Node "ok"', bare.port, '/', []],
    ['html, 4 KiB', edge.port, '/', []],
    ['hashed js, 40 KiB', edge.port, '/assets/app-D1wrgTda.js', []],
    ['304', edge.port, '/', ['-H', `If-None-Match: ${tag}`]],
    ['streamed, 1 MiB', edge.port, '/large.bin', []],
  ]
  const results = cases.map(() => [] as (Result & { ratio: number })[])
  for (let round = 0; round < rounds; round++) {
    let bareRate = 0
    for (const [i, [, port, path, headers]] of cases.entries()) {
      const result = wrk(port, path, headers, seconds)
      bareRate ||= result.rps
      results[i]?.push({ ...result, ratio: result.rps / bareRate })
    }
  }
  console.log('case                requests/s   of bare   p99 ms    failed')
  for (const [i, [name]] of cases.entries()) {
    const column = (key: keyof Result | 'ratio', digits: number) =>
      median((results[i] ?? []).map((result) => result[key])).toFixed(digits)
    const columns = [column('rps', 0).padStart(10), column('ratio', 2).padStart(10), column('p99Ms', 1).padStart(9)]
    console.log(name.padEnd(19), ...columns, column('failed', 0).padStart(9))
  }
}

interface Result {
  readonly rps: number
  readonly p99Ms: number
  readonly failed: number
}

function wrk(port: number, path: string, headers: readonly string[], seconds: number): Result {
  const fixed = ['-t1', '-c64', `-d${seconds}s`, '--latency', '-H', 'Host: bench.plinth.test']
  const { stdout } = spawnSync('wrk', [...fixed, ...headers, `http://127.0.0.1:${port}${path}`], { encoding: 'utf8' })
  const [, p99, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  return {
    rps: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p99Ms: Number(p99) * (unit === 'us' ? 0.001 : unit === 's' ? 1000 : 1),
    failed: Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0) + (stdout.includes('Socket errors') ? 1 : 0),
  }
}

async function tagOf(port: number): Promise<string> {
  const outgoing = request({ port, headers: { host: 'bench.plinth.test' } }).end()
  const [response] = await once(outgoing, 'response')
  await text(response)
  return response.headers.etag
}
