import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startServer } from '../../bench/child-server.ts'
import { ask, platformDomain } from '../edge/test-edge.ts'
import { peakMemory, resetPeak } from './peak-memory.ts'

const downloads = 20
const size = 50_000_000
const bytesPerSecond = 1_000_000
const durationMs = 10_000

/** Reads a megabyte a second, until it is closed. */
async function readSlowly(port: number) {
  const headers = { host: `large.${platformDomain}` }
  const outgoing = request({ host: '127.0.0.1', port, path: '/large.bin', agent: false, headers }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const startedAt = performance.now()
  let received = 0
  let ended = false
  response.on('error', () => undefined).on('end', () => (ended = true))
  response.on('data', async (chunk: Buffer) => {
    received += chunk.length
    const aheadMs = (received / bytesPerSecond) * 1000 - (performance.now() - startedAt)
    if (aheadMs <= 0) return
    response.pause()
    await pause(aheadMs)
    response.resume()
  })
  return {
    status: response.statusCode,
    received: () => received,
    ended: () => ended,
    [Symbol.dispose]: () => void outgoing.destroy(),
  }
}

test('3: 20 visitors who read 50 MB slowly take little memory of the edge and slow nobody down', async () => {
  await using edge = await startServer(join(import.meta.dirname, 'large-file-process.ts'))
  const visit = async () => {
    const startedAt = performance.now()
    expect((await ask(edge.port, '/', { host: `victim.${platformDomain}` })).status).toBe(200)
    return performance.now() - startedAt
  }
  const p99 = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0
  const alone: number[] = []
  for (let i = 0; i < 300; i++) alone.push(await visit())
  await resetPeak(edge.pid)
  const before = await peakMemory(edge.pid)
  using stack = new DisposableStack()
  const readers = await Promise.all(Array.from({ length: downloads }, () => readSlowly(edge.port)))
  for (const reader of readers) stack.use(reader)
  const beside: number[] = []
  const end = performance.now() + durationMs
  while (performance.now() < end) {
    beside.push(await visit())
    await pause(10)
  }
  const growth = (await peakMemory(edge.pid)) - before
  console.table([{ downloads, 'memory grew (MiB)': growth, 'p99 alone (ms)': p99(alone), 'p99 beside (ms)': p99(beside) }])
  expect(readers.map(({ status }) => status)).toEqual(Array(downloads).fill(200))
  // none was done, and none stood still
  expect(readers.filter((one) => one.ended() || one.received() < bytesPerSecond || one.received() >= size)).toEqual([])
  expect(growth).toBeLessThan(64)
  expect(p99(beside)).toBeLessThan(Math.max(250, 2 * p99(alone)))
})

test('3: a tenant who makes 40 files of 8 MiB popular in turn, and reads none of them to its end, takes little memory', async () => {
  const files = 40
  await using edge = await startServer(join(import.meta.dirname, 'popular-files-process.ts'), String(files))
  const host = `popular.${platformDomain}`
  await resetPeak(edge.pid)
  const before = await peakMemory(edge.pid)
  using stack = new DisposableStack()
  for (let file = 0; file < files; file++) {
    // more often than each of those before
    for (let i = 0; i < 4 + 2 * file; i++) {
      const { status } = await ask(edge.port, `/${file}.bin`, { host, method: 'HEAD' })
      expect(status).toBe(200)
    }
    const visitor = connect(edge.port, '127.0.0.1')
    stack.defer(() => visitor.destroy())
    visitor.on('error', () => undefined)
    visitor.write(`GET /${file}.bin HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    await once(visitor, 'readable')
  }
  const growth = (await peakMemory(edge.pid)) - before
  console.table([{ files, 'memory grew (MiB)': growth }])
  expect(growth).toBeLessThan(128)
})
