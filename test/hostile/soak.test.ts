import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { quantile } from '../../bench/statistics.ts'
import { type Answer, ok, type Platform, report, roles, type Site, startPlatform } from './platform.ts'

// Checks 6 and 9. PLINTH_SOAK_MINUTES is how long each of them runs; 30 shows what grows slowly.

const durationMs = Number(process.env['PLINTH_SOAK_MINUTES'] ?? 5) * 60_000
const timeout = durationMs + 5 * 60_000
const MiB = 1024 * 1024

let platform: Platform
let site: Site
beforeAll(async () => {
  platform = await startPlatform()
  site = await platform.emptySite('soak-test')
  await deploy(0)
})
afterAll(() => platform?.[Symbol.asyncDispose]())

const get = (path: string) => platform.call(`GET /api/v1${path}`, { key: site.key })
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

const reads = [
  () => get('/whoami'),
  () => get(`/sites/${site.id}`),
  () => get(`/sites/${site.id}/deploys?limit=50`),
  () => get('/sites'),
]
const writes = [
  (n: number) => platform.call(`PATCH /api/v1/sites/${site.id}`, { key: site.key, json: { name: `name ${n}` } }),
  (n: number) => platform.call(`PUT /api/v1/blobs/${hashOf(`blob ${n}`)}`, { key: site.key, bytes: Buffer.from(`blob ${n}`) }),
  (n: number) => {
    const files = [{ path: 'index.html', sha256: hashOf(`blob ${n}`) }]
    return platform.call(`POST /api/v1/sites/${site.id}/deploys/check`, { key: site.key, json: { files } })
  },
]

/** Seven reads for three writes. */
const mixed = (n: number): Promise<Answer> =>
  n % 10 < 7
    ? (reads[n % reads.length] as () => Promise<Answer>)()
    : (writes[n % writes.length] as (n: number) => Promise<Answer>)(n)

/** Sends so many requests a second, however slowly they are answered, and waits for all answers. */
async function load(perSecond: number, send: (n: number) => Promise<Answer>) {
  const times: number[] = []
  const statuses = new Map<number, number>()
  const answers: Promise<void>[] = []
  const startedAt = performance.now()
  for (let n = 0; performance.now() - startedAt < durationMs; n++) {
    await pause(Math.max(0, startedAt + (n * 1000) / perSecond - performance.now()))
    const sentAt = performance.now()
    const noted = send(n)
      .catch(() => ({ status: 0 }))
      .then(({ status }) => {
        times.push(performance.now() - sentAt)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      })
    answers.push(noted)
  }
  await Promise.all(answers)
  const failed = [...statuses].filter(([status]) => status !== 200)
  return { times, failed }
}

async function deploy(n: number): Promise<void> {
  const json = { files: [{ path: 'index.html', content: `page ${n}` }] }
  const { id } = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))
  await platform.reaches(site, id, ['active', 'superseded', 'failed'])
}

test('6: fifty requests a second, seven of ten of them reads, are answered soon', { timeout }, async () => {
  const { times, failed } = await load(50, mixed)
  const metrics = String((await platform.operator('GET /metrics')).body)
  const lagMs = Number(/^nodejs_eventloop_lag_p99_seconds(?:\{.*\})? (\S+)$/m.exec(metrics)?.[1]) * 1000
  const p99 = Math.round(quantile(times, 0.99))
  report(
    '6',
    `p99 ${p99} ms of ${times.length}, event loop p99 ${Math.round(lagMs)} ms, ${failed.length} kinds of failures`,
    '250, 50, 0',
  )
  expect(failed).toEqual([])
  expect(p99).toBeLessThan(250)
  expect(lagMs).toBeLessThan(50)
})

/** Resident memory in MiB and open descriptors of a process. */
async function sizeOf(pid: number): Promise<{ rss: number; fds: number }> {
  const [, pages] = (await readFile(`/proc/${pid}/statm`, 'utf8')).split(' ')
  return { rss: (Number(pages) * 4096) / MiB, fds: (await readdir(`/proc/${pid}/fd`)).length }
}

/** Growth in MiB a minute by least squares, of the second half: at first every process fills its caches. */
function slopeOf(samples: readonly { readonly minute: number; readonly rss: number }[]): number {
  const late = samples.slice(Math.floor(samples.length / 2))
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [minute, rss] = [mean(late.map((one) => one.minute)), mean(late.map((one) => one.rss))]
  const covariance = mean(late.map((one) => (one.minute - minute) * (one.rss - rss)))
  return covariance / mean(late.map((one) => (one.minute - minute) ** 2))
}

/** Events in the history of each deploy that has ended. */
async function eventsOfDeploys(): Promise<number[]> {
  const port = /Temporal on port (\d+)/.exec(platform.lines.join('\n'))?.[1]
  const connection = await Connection.connect({ address: `127.0.0.1:${port}` })
  try {
    const events: number[] = []
    for await (const { type, historyLength } of new Client({ connection }).workflow.list({
      query: "ExecutionStatus = 'Completed'",
    }))
      if (type === 'deploy') events.push(historyLength)
    return events
  } finally {
    await connection.close()
  }
}

test('9: memory, descriptors and histories do not grow under a mixed load with deploys one after the other', {
  timeout,
}, async () => {
  const pids = await Promise.all(roles.map(async (role) => [role, await platform.pidOf(role)] as const))
  const samples = new Map(pids.map(([role]) => [role, [] as { minute: number; rss: number; fds: number }[]]))
  const startedAt = performance.now()
  let deploys = 0
  async function sample(): Promise<void> {
    while (performance.now() - startedAt < durationMs) {
      const minute = (performance.now() - startedAt) / 60_000
      for (const [role, pid] of pids) samples.get(role)?.push({ minute, ...(await sizeOf(pid)) })
      await pause(Math.min(5000, durationMs / 20))
    }
  }
  async function deployOn(): Promise<void> {
    while (performance.now() - startedAt < durationMs) {
      await deploy(++deploys)
      await pause(500)
    }
  }
  const visits = load(20, () => platform.call('GET /', { host: site.host }))
  const [{ failed }, calls] = await Promise.all([visits, load(10, mixed), sample(), deployOn()])
  const events = await eventsOfDeploys()
  const figures = [...samples].map(([role, taken]) => {
    const half = taken[Math.floor(taken.length / 2)]
    const last = taken.at(-1)
    return {
      role,
      slope: slopeOf(taken),
      'RSS (MiB)': last?.rss,
      'descriptors in the middle': half?.fds,
      'descriptors at the end': last?.fds,
    }
  })
  console.table(figures)
  const most = Math.max(...events)
  const steepest = Math.max(...figures.map(({ slope }) => slope))
  report('9', `${deploys} deploys: at most ${most} events each, memory grew ${steepest.toFixed(2)} MiB a minute`, '60, 1')
  expect([failed, calls.failed]).toEqual([[], []])
  expect(events.length).toBeGreaterThan(0)
  expect(most).toBeLessThanOrEqual(60)
  for (const figure of figures)
    expect(figure['descriptors at the end']).toBeLessThanOrEqual((figure['descriptors in the middle'] ?? 0) + 20)
  // in a few minutes what the garbage collector has left alone looks like growth
  if (durationMs >= 20 * 60_000) expect(steepest).toBeLessThan(1)
})
