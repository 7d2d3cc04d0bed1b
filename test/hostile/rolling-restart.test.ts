import { Agent } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import { tarGz } from '../infra/archives.ts'
import { type Answer, ok, type Platform, report, type Sent, type Site, startPlatform } from './platform.ts'

let platform: Platform
let site: Site
beforeAll(async () => {
  platform = await startPlatform()
  site = await platform.emptySite('rolling-restart')
  const { id } = await ok(deployPage('first'))
  await platform.reaches(site, id)
  const served = async () => (await platform.call('GET /', { host: site.host })).status === 200
  await waitUntil('the edge', served, { timeoutMs: 30_000 })
})
afterAll(() => platform?.[Symbol.asyncDispose]())

const deployPage = (content: string, agent?: Agent) =>
  platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, {
    key: site.key,
    json: { files: [{ path: 'index.html', content }] },
    ...(agent && { agent }),
  })

/** Sends the same request again and again over one kept connection until stopped. Answers how many were sent, and those that failed. */
function keepSending(send: (sent: Pick<Sent, 'agent'>) => Promise<Answer>, pauseMs: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const failures: string[] = []
  let sent = 0
  let slowestMs = 0
  const stopped = new AbortController()
  const sending = (async () => {
    while (!stopped.signal.aborted) {
      const startedAt = performance.now()
      try {
        const { status, body } = await send({ agent })
        if (status !== 200) failures.push(`${status} ${JSON.stringify(body).slice(0, 200)}`)
      } catch (error) {
        failures.push(String(error))
      }
      sent += 1
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  })()
  return async () => {
    stopped.abort()
    await sending
    agent.destroy()
    return { sent, failures, slowestMs }
  }
}

test('34: SIGTERM of api, edge, worker and runner one after the other under load fails no request and no build', async () => {
  const { key, host, id } = site
  const writes = { key, json: { name: 'rolling restart' } }
  const loads = [
    ...Array.from({ length: 4 }, () => keepSending((one) => platform.call('GET /', { host, ...one }), 5)),
    ...Array.from({ length: 4 }, () => keepSending((one) => platform.call(`GET /api/v1/sites/${id}`, { key, ...one }), 10)),
    ...Array.from({ length: 2 }, () =>
      keepSending((one) => platform.call(`PATCH /api/v1/sites/${id}`, { ...writes, ...one }), 20),
    ),
  ]
  let n = 0
  loads.push(keepSending(({ agent }) => deployPage(`page ${n++}`, agent), 500))
  const tookMs: string[] = []
  const builds: string[] = []
  for (const name of ['api', 'edge', 'worker', 'runner', 'api', 'edge']) {
    const script = `sleep 2 && mkdir dist && echo ${name} > dist/index.html`
    const bytes = tarGz([
      { name: 'package.json', data: JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: script } }) },
    ])
    const build = await ok(platform.call(`POST /api/v1/sites/${id}/deploys`, { key, bytes }))
    builds.push(build.id)
    await platform.reaches(site, build.id, ['building', 'active', 'superseded', 'failed'])
    tookMs.push(`${name} ${await platform.restart(name, 'SIGTERM')} ms`)
  }
  const results = await Promise.all(loads.map((stop) => stop()))
  const sent = results.reduce((sum, one) => sum + one.sent, 0)
  const failures = results.flatMap((one) => one.failures)
  const kinds = Map.groupBy(failures, (failure) => failure)
  const slowest = Math.round(Math.max(...results.map((one) => one.slowestMs)))
  const endings = await Promise.all(
    builds.map(async (build) => (await platform.reaches(site, build, ['active', 'superseded', 'failed'])).status as string),
  )
  report('34', `${failures.length} of ${sent} requests failed, slowest ${slowest} ms (${tookMs.join(', ')})`, '0 failed')
  expect(Object.fromEntries([...kinds].map(([kind, { length }]) => [kind, length]))).toEqual({})
  expect(endings.filter((status) => status === 'failed')).toEqual([])
})
