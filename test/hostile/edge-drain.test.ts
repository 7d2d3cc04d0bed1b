import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { quantile } from '../../bench/statistics.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { ok, report, startPlatform } from './platform.ts'

const connections = 64
const restarts = 4

test('34: SIGTERM of the edge under the load of 64 busy connections fails no request', async () => {
  await using platform = await startPlatform()
  const { host, id, key } = await platform.emptySite('drained')
  const files = [
    { path: 'index.html', content: 'home' },
    // larger than what the edge keeps in memory, so that it is streamed
    { path: 'large.txt', content: 'a line of a large file\n'.repeat(50_000) },
  ]
  const deploy = await ok(platform.call(`POST /api/v1/sites/${id}/deploy-files`, { key, json: { files } }))
  await platform.reaches({ key }, deploy.id)
  const served = async () => (await platform.call('GET /', { host })).status === 200
  await waitUntil('the edge', served, { timeoutMs: 30_000 })

  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const failures = new Map<string, number>()
  const tookMs: number[] = []
  const state = { stopped: false }
  const sizes = { '/': 4, '/large.txt': 23 * 50_000 } as const
  /** What is wrong with the answer; undefined when nothing is. */
  const ask = async (path: keyof typeof sizes) => {
    const outgoing = request({ host: '127.0.0.1', port: platform.port, path, headers: { host }, agent }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const { length } = await buffer(response)
    return response.statusCode === 200 && length === sizes[path] ? undefined : `${response.statusCode}, ${length} bytes`
  }
  const keepAsking = async (path: keyof typeof sizes) => {
    while (!state.stopped) {
      const startedAt = performance.now()
      const outcome = await ask(path).catch(String)
      if (outcome !== undefined) failures.set(outcome, (failures.get(outcome) ?? 0) + 1)
      tookMs.push(performance.now() - startedAt)
    }
  }
  const asking = Array.from({ length: connections }, (_, i) => keepAsking(i % 16 === 0 ? '/large.txt' : '/'))
  const restartMs: number[] = []
  for (let i = 0; i < restarts; i++) {
    await pause(2000)
    restartMs.push(await platform.restart('edge', 'SIGTERM'))
  }
  await pause(2000)
  state.stopped = true
  await Promise.all(asking)
  agent.destroy()
  const failed = [...failures.values()].reduce((sum, count) => sum + count, 0)
  const figure = `${failed} of ${tookMs.length} requests failed, p99 ${quantile(tookMs, 0.99).toFixed(0)} ms, slowest ${Math.max(...tookMs).toFixed(0)} ms`
  report('34', `${figure} (new edges after ${restartMs.join(', ')} ms)`, '0 failed')
  expect(Object.fromEntries(failures)).toEqual({})
})
