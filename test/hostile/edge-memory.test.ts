import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startServer } from '../../bench/child-server.ts'
import { ask, platformDomain } from '../edge/test-edge.ts'
import { peakMemory, resetPeak } from './peak-memory.ts'

const sites = 10
const durationMs = 8000

test('ten sites of 20,000 long paths, visited in turns, slow no other site down and take little memory', async () => {
  await using edge = await startServer(join(import.meta.dirname, 'long-manifests-process.ts'), String(sites))
  const visit = async (subdomain: string, path = '/') => {
    const startedAt = performance.now()
    const { status } = await ask(edge.port, path, { host: `${subdomain}.${platformDomain}` })
    expect(status).toBe(200)
    return performance.now() - startedAt
  }
  const quiet: number[] = []
  for (let i = 0; i < 200; i++) quiet.push(await visit('victim'))
  const alone = Math.max(...quiet)
  await resetPeak(edge.pid)
  const before = await peakMemory(edge.pid)
  const end = performance.now() + durationMs
  let attacks = 0
  const attack = async () => {
    while (performance.now() < end) {
      await visit(`long-${attacks % sites}`)
      attacks += 1
    }
  }
  const waits: number[] = []
  const watch = async () => {
    while (performance.now() < end) waits.push(await visit('victim'))
  }
  await Promise.all([attack(), attack(), watch()])
  const worst = Math.max(...waits)
  const memory = await peakMemory(edge.pid)
  console.table([
    {
      attacks,
      visits: waits.length,
      'worst alone (ms)': alone,
      'worst (ms)': worst,
      'memory before (MiB)': before,
      'memory (MiB)': memory,
    },
  ])
  expect(worst).toBeLessThan(Math.max(250, 3 * alone))
  expect(memory).toBeLessThan(600)
})
