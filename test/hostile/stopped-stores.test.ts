import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admissionLimits } from '../../core/limits.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { type Answer, ok, type Platform, report, type Site, startPlatform } from './platform.ts'

const downMs = 10_000
const stoppedMs = 20_000
/** In which the api has to say that something it needs is away. */
const longestRefusalMs = { killed: 2000, stopped: 5000 }
/** In which everything works again after what was killed, or stopped, runs. */
const recoveryMs = { killed: 5000, stopped: 10_000 }
/** Of one key: five times as many as may hold a connection. */
const callersAtOnce = 5 * admissionLimits.connections.held

let platform: Platform
let site: Site
let deploys = 0
beforeAll(async () => {
  platform = await startPlatform()
  site = await platform.emptySite('stopped-stores')
  await publish()
})
afterAll(() => platform?.[Symbol.asyncDispose]())

const visit = (host = site.host) => platform.call('GET /', { host })
const whoami = () => platform.call('GET /api/v1/whoami', { key: site.key })

/** Deploys a new page and waits until visitors see it: the api, PostgreSQL, Temporal, the worker and the edge all have a part in it. */
async function publish(): Promise<void> {
  const content = `page ${deploys++}`
  const json = { files: [{ path: 'index.html', content }] }
  const answered = async () => {
    const answer = await platform
      .call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json })
      .catch(() => undefined)
    if (answer && ![200, 503].includes(answer.status)) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`)
    return answer?.status === 200
  }
  await waitUntil('the api', answered, { timeoutMs: 60_000 })
  await waitUntil(content, async () => (await visit()).body === content, { timeoutMs: 60_000 })
}

/** Sends the same request again and again, one after the other, until it is stopped. */
function keepAsking(ask: () => Promise<Answer>) {
  const statuses: number[] = []
  let slowestMs = 0
  const stopped = new AbortController()
  const asking = (async () => {
    while (!stopped.signal.aborted) {
      const startedAt = performance.now()
      const { status } = await ask().catch(() => ({ status: 0 }))
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      statuses.push(status)
      await pause(20)
    }
  })()
  return async () => {
    stopped.abort()
    await asking
    return { statuses, slowestMs: Math.round(slowestMs) }
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return Math.round(performance.now() - startedAt)
}

/** The process and its children: PostgreSQL answers from one for each connection. */
async function withChildren(name: string): Promise<number[]> {
  const pid = await platform.pidOf(name)
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return [pid, ...children.split(' ').filter(Boolean).map(Number)]
}

test('15: while PostgreSQL is killed whenever it starts, known sites are served and the api answers 503', async () => {
  const visits = Array.from({ length: 4 }, () => keepAsking(() => visit()))
  const calls = Array.from({ length: callersAtOnce }, () => keepAsking(whoami))
  const json = { files: [{ path: 'index.html', content: 'on its way' }] }
  const onItsWay = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))
  const end = performance.now() + downMs
  let unknown: Answer | undefined
  let killed = 0
  while (performance.now() < end) {
    const pid = await platform.pidOf('postgres').catch(() => killed)
    if (pid !== killed) process.kill(pid, 'SIGKILL')
    killed = pid
    unknown = await visit('never-made.plinth.localhost')
    await pause(20)
  }
  const refused = await Promise.all(calls.map((stop) => stop()))
  await waitUntil('PostgreSQL', () => platform.lines.at(-1) === 'postgres runs again', { timeoutMs: 60_000 })
  const recoveredMs = await timed(async () => {
    await platform.reaches(site, onItsWay.id)
    await publish()
  })
  const served = (await Promise.all(visits.map((stop) => stop()))).flatMap(({ statuses }) => statuses)
  const slowestMs = Math.max(...refused.map((one) => one.slowestMs))
  const failed = served.filter((status) => status !== 200).length
  report(
    '15',
    `${failed} of ${served.length} visits failed, slowest answer of the api ${slowestMs} ms, recovered in ${recoveredMs} ms`,
    `0, ${longestRefusalMs.killed} ms, ${recoveryMs.killed} ms`,
  )
  expect(failed).toBe(0)
  expect([unknown?.status, unknown?.headers['cache-control']]).toEqual([503, 'no-store'])
  const answers = refused.flatMap(({ statuses }) => statuses)
  expect(answers).toContain(503)
  expect(answers.filter((status) => ![200, 503].includes(status))).toEqual([])
  expect(slowestMs).toBeLessThan(longestRefusalMs.killed)
  expect(recoveredMs).toBeLessThan(recoveryMs.killed)
})

test.each([
  ['postgres', { visits: [200], calls: [503] }],
  ['temporal', { visits: [200], calls: [200] }],
  ['worker', { visits: [200], calls: [200] }],
  ['edge', { visits: [], calls: [200] }],
] as const)(
  '38: %s that stands still for 20 s holds nothing else up, and goes on as if nothing had been',
  async (name, expected) => {
    const stopped = await withChildren(name)
    const ends = () => platform.lines.filter((line) => line.startsWith(`${name} ended`)).length
    const endsBefore = ends()
    for (const pid of stopped) process.kill(pid, 'SIGSTOP')
    const since = performance.now()
    let visits: Awaited<ReturnType<ReturnType<typeof keepAsking>>>[]
    let calls: typeof visits
    try {
      // a visit of a stopped edge waits in its socket, and there is nobody who could answer it
      const visitors = expected.visits.length > 0 ? Array.from({ length: 4 }, () => keepAsking(() => visit())) : []
      const callers = Array.from({ length: callersAtOnce }, () => keepAsking(whoami))
      await pause(stoppedMs - (performance.now() - since))
      visits = await Promise.all(visitors.map((stop) => stop()))
      calls = await Promise.all(callers.map((stop) => stop()))
    } finally {
      for (const pid of stopped) process.kill(pid, 'SIGCONT')
    }
    const recoveredMs = await timed(publish)
    const slowestMs = Math.max(...[...visits, ...calls].map((one) => one.slowestMs))
    report(
      `38 ${name}`,
      `slowest answer ${slowestMs} ms, recovered in ${recoveredMs} ms`,
      `${longestRefusalMs.stopped} ms, ${recoveryMs.stopped} ms`,
    )
    expect([...new Set(visits.flatMap(({ statuses }) => statuses))]).toEqual(expected.visits)
    expect([...new Set(calls.flatMap(({ statuses }) => statuses))]).toEqual(expected.calls)
    expect(slowestMs).toBeLessThan(longestRefusalMs.stopped)
    expect(recoveredMs).toBeLessThan(recoveryMs.stopped)
    expect(ends()).toBe(endsBefore)
  },
)
