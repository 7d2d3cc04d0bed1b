import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openDatabase } from '../infra/db/database.ts'
import { reachableFolder } from '../infra/local/place.ts'
import { runningPostgresUrl } from '../infra/local/postgres.ts'
import { startPlatform } from '../test/hostile/platform.ts'
import { watchVictim } from '../test/hostile/victim.ts'
import { tarGz } from '../test/infra/archives.ts'
import { fillSubmissions } from '../test/largest-project.ts'

// What a project that reads its own large lists on four connections costs another project, beside four connections that read as many bytes
// in usual answers, in the same minute and in turns. At most twice the p90 of the well-behaved load, and no 503, is the aim.
//   npm run bench answers -- [rounds] [seconds of each measurement]
// PLINTH_TREE=<another checkout> measures that one.

const [rounds = '3', seconds = '8'] = process.argv.slice(2)
const MiB = 1024 * 1024
const { PLINTH_TREE: tree } = process.env
await using platform = await startPlatform({ tree })
const attacker = await platform.project('enterprise')
const victim = await platform.project('enterprise')
const site = await platform.site(attacker)
const entries = Array.from({ length: 19_000 }, (_, i) => ({ name: `notes/${i}.html`.padEnd(60, 'x'), data: '' }))
const deploy = await platform.deployArchive(attacker, site.id, tarGz([{ name: 'index.html', data: 'x' }, ...entries]))
{
  await using opened = openDatabase(
    (await runningPostgresUrl(join(await reachableFolder(platform.config.dataDir), 'postgres'))) ?? '',
  )
  const fill = () => fillSubmissions(opened.db, { project_id: attacker.id, site_id: site.id })
  // a busy machine may not connect in time
  await fill().catch(fill)
}

/** The well-behaved load: one submission at a time. */
const usual = '/api/v1/forms/submissions?limit=1'
const attacks: Readonly<Record<string, { readonly path: string; readonly key: string }>> = {
  'forms/submissions?limit=200, 12 MB': { path: '/api/v1/forms/submissions?limit=200', key: attacker.readonlyKey },
  'forms/submissions/export as CSV': { path: '/api/v1/forms/submissions/export', key: attacker.key },
  'forms/submissions/export as JSON lines': { path: '/api/v1/forms/submissions/export?format=jsonl', key: attacker.key },
  'deploys/{id}/files, 19,001 files': { path: `/api/v1/deploys/${deploy.body.id}/files`, key: attacker.readonlyKey },
}

const idleMiB = (await platform.memory()).api.peakMiB
console.log(`the api has ${idleMiB} MiB before; medians of ${rounds} rounds of ${seconds} s: whoami of another project`)
console.log(`${'load on four connections'.padEnd(42)}    p50 ms   p90 ms   503 of all   MB/s   peak of the api, MiB`)
for (const [name, { path, key }] of Object.entries(attacks)) {
  const found: Record<'usual' | 'attack', Measured[]> = { usual: [], attack: [] }
  for (let round = 0; round < Number(rounds); round++) {
    const attack = await measure(path, key, Number.POSITIVE_INFINITY)
    // as many bytes a second as the attack got
    found.usual.push(await measure(usual, attacker.readonlyKey, attack.bytesPerSecond))
    found.attack.push(attack)
  }
  console.log(row(name, found.attack))
  console.log(row('  as many bytes in answers of 100 KB', found.usual))
}

interface Measured {
  readonly p50: number
  readonly p90: number
  readonly failed: number
  readonly answers: number
  readonly bytesPerSecond: number
  readonly peakMiB: number
}

function row(name: string, all: readonly Measured[]): string {
  const of = (value: (one: Measured) => number) => all.map(value).toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0
  const sum = (value: (one: Measured) => number) => all.reduce((total, one) => total + value(one), 0)
  const times = [of((one) => one.p50), of((one) => one.p90)].map((ms) => ms.toFixed(1).padStart(8)).join(' ')
  const failed = `${sum((one) => one.failed)} of ${sum((one) => one.answers)}`
  const rate = (of((one) => one.bytesPerSecond) / MiB).toFixed(1)
  return `${name.padEnd(42)} ${times} ${failed.padStart(13)} ${rate.padStart(6)} ${Math.max(...all.map((one) => one.peakMiB))}`
}

async function measure(path: string, key: string, bytesPerSecond: number): Promise<Measured> {
  await platform.memory()
  const watched = watchVictim({
    port: platform.port,
    method: 'GET',
    path: '/api/v1/whoami',
    headers: { host: 'localhost', authorization: `Bearer ${victim.key}` },
  })
  await pause(500)
  const stopped = AbortSignal.timeout(Number(seconds) * 1000)
  const began = performance.now()
  let bytes = 0
  const reader = async () => {
    const agent = new Agent({ keepAlive: true })
    while (!stopped.aborted) {
      bytes += await read(path, key, agent)
      const aheadMs = (bytes / bytesPerSecond) * 1000 - (performance.now() - began)
      if (aheadMs > 0) await pause(aheadMs)
    }
    agent.destroy()
  }
  await Promise.all([reader(), reader(), reader(), reader()])
  const tookMs = performance.now() - began
  const { median, p90, failed, answers } = await watched()
  const { api } = await platform.memory()
  const rate = (bytes / tookMs) * 1000
  return { p50: median, p90, failed: failed[503] ?? 0, answers, bytesPerSecond: rate, peakMiB: api.peakMiB }
}

async function read(path: string, key: string, agent: Agent): Promise<number> {
  const headers = { host: 'localhost', authorization: `Bearer ${key}` }
  const outgoing = request({ host: '127.0.0.1', port: platform.port, path, headers, agent }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  let bytes = 0
  for await (const chunk of response) bytes += (chunk as Buffer).length
  return bytes
}
