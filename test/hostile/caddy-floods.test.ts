import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer } from '../../bench/child-server.ts'
import { quantile } from '../../bench/statistics.ts'
import { firstLine, openCaddy } from '../edge/caddy-edge.ts'
import { platformDomain } from '../edge/test-edge.ts'
import { getFrame, moreHeaders, openHttp2, resetFrame } from './http2-frames.ts'
import { report } from './platform.ts'

const host = `site.${platformDomain}`

let stack: AsyncDisposableStack
let caddy: Awaited<ReturnType<typeof openCaddy>>
let edge: Awaited<ReturnType<typeof startServer>>
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  caddy = stack.use(await openCaddy())
  edge = stack.use(await startServer(join(import.meta.dirname, 'socket-edge-process.ts'), caddy.config.sockets.edge))
})
afterAll(() => stack.disposeAsync())

const pids = () => ({ caddy: caddy.pid, edge: edge.pid })
const httpsPort = () => caddy.config.http.httpsPort

async function memoryMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024)
}

/** Visits the site, as a good visitor with a connection of its own, every 20 ms until stopped. */
function keepVisiting() {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const tookMs: number[] = []
  const failures: string[] = []
  const state = { stopped: false }
  const visiting = (async () => {
    while (!state.stopped) {
      const startedAt = performance.now()
      try {
        const outgoing = request({ host: '127.0.0.1', port: caddy.port, path: '/', headers: { host }, agent }).end()
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
        if ((await text(response)) !== 'home' || response.statusCode !== 200) failures.push(`answered ${response.statusCode}`)
      } catch (error) {
        failures.push(String(error))
      }
      tookMs.push(performance.now() - startedAt)
      await pause(20)
    }
  })()
  return async () => {
    state.stopped = true
    await visiting
    agent.destroy()
    return { tookMs, failures }
  }
}

/** Attacks while good visitors come, and reports what it cost them and the processes. */
async function beside(check: string, attack: () => Promise<string>): Promise<void> {
  const before = { caddy: await memoryMiB(pids().caddy), edge: await memoryMiB(pids().edge) }
  const visits = [keepVisiting(), keepVisiting()]
  await pause(1000)
  const what = await attack()
  const ended = await Promise.all(visits.map((stop) => stop()))
  const after = { caddy: await memoryMiB(pids().caddy), edge: await memoryMiB(pids().edge) }
  const tookMs = ended.flatMap((one) => one.tookMs)
  const failures = ended.flatMap((one) => one.failures)
  const figures = [
    `${failures.length} of ${tookMs.length} visits beside failed, p99 ${quantile(tookMs, 0.99).toFixed(0)} ms`,
    `Caddy ${before.caddy} → ${after.caddy} MiB`,
    `edge ${before.edge} → ${after.edge} MiB`,
  ]
  report(check, `${what}; ${figures.join('; ')}`, '0 failed')
  expect(failures).toEqual([])
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('52: ten thousand streams that are reset as soon as they are opened, on each of four connections, disturb nobody', async () => {
  await beside('52 rapid reset', async () => {
    const [connections, streams] = [4, 10_000]
    let closed = 0
    const startedAt = performance.now()
    const attack = async () => {
      let connection = await openHttp2(httpsPort(), host)
      for (let sent = 0, stream = 1; sent < streams; sent++, stream += 2) {
        if (connection.isClosed()) {
          closed += 1
          connection = await openHttp2(httpsPort(), host)
          stream = 1
        }
        await connection.write(Buffer.concat([getFrame(stream, host, '/image.png'), resetFrame(stream)]))
        if (sent % 50 === 0) await turn()
      }
      connection[Symbol.dispose]()
    }
    await Promise.all(Array.from({ length: connections }, attack))
    const seconds = (performance.now() - startedAt) / 1000
    return `${connections * streams} streams reset in ${seconds.toFixed(1)} s, ${closed} connections closed by Caddy`
  })
})

test('52: headers that go on in frame after frame are refused before they take memory', async () => {
  await beside('52 CONTINUATION flood', async () => {
    const more = moreHeaders(1, 100)
    const sentBytes: number[] = []
    const attack = async () => {
      using connection = await openHttp2(httpsPort(), host)
      await connection.write(getFrame(1, host, '/', false))
      let sent = 0
      for (; !connection.isClosed() && sent < 64 * 1024 * 1024; sent += more.length) {
        await connection.write(more)
        await turn()
      }
      sentBytes.push(sent)
    }
    for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 20 }, attack))
    expect(Math.max(...sentBytes)).toBeLessThan(16 * 1024 * 1024)
    return `100 connections, closed after at most ${(Math.max(...sentBytes) / 1024).toFixed(0)} KiB of headers`
  })
})

test('52: requests with more headers than the limit are refused with 431, in large numbers', async () => {
  await beside('52 header flood', async () => {
    const many = Array.from({ length: 2000 }, (_, i) => `X-${i}: ${'v'.repeat(20)}\r\n`).join('')
    const bytes = `GET / HTTP/1.1\r\nHost: ${host}\r\n${many}\r\n`
    const lines = new Set<string>()
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => firstLine(caddy.port, bytes)))
      for (const line of answers) lines.add(line)
    }
    expect([...lines]).toEqual(['HTTP/1.1 431 Request Header Fields Too Large'])
    return `1,000 requests of ${(bytes.length / 1024).toFixed(0)} KiB refused`
  })
})

test('52: ten thousand idle connections leave room for visitors', async () => {
  await beside('52 idle connections', async () => {
    const open: Socket[] = []
    try {
      for (let round = 0; round < 100; round++) {
        const sockets = Array.from({ length: 100 }, () => connect(caddy.port, '127.0.0.1').on('error', () => undefined))
        open.push(...sockets)
        await Promise.all(sockets.map((socket) => once(socket, 'connect')))
        // without a first request they would be closed after ten seconds
        const answers = sockets.map((socket) => once(socket, 'data'))
        for (const socket of sockets) socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
        await Promise.all(answers)
      }
      expect(open.filter((socket) => socket.destroyed || socket.readableEnded)).toEqual([])
      await pause(3000)
      const memory = [await memoryMiB(caddy.pid), await memoryMiB(edge.pid)].join(' and ')
      return `${open.length} connections open, Caddy and edge take ${memory} MiB with them`
    } finally {
      for (const socket of open) socket.destroy()
    }
  })
})

test('52: visitors who ask for pages and images over HTTP/2 and read none of them are closed after a minute', async () => {
  await beside('52 unread streams', async () => {
    const [connections, streams] = [20, 100]
    const open = await Promise.all(Array.from({ length: connections }, () => openHttp2(httpsPort(), host, 0)))
    for (const connection of open) {
      // the edge has passed a page on at once, and waits with an image
      for (let i = 0; i < streams; i++) await connection.write(getFrame(2 * i + 1, host, i % 2 ? '/image.png' : '/'))
    }
    await pause(3000)
    const memory = [await memoryMiB(caddy.pid), await memoryMiB(edge.pid)].join(' and ')
    const answered = open.reduce((sum, connection) => sum + connection.received(1), 0)
    const startedAt = performance.now()
    const isOver = () => open.every((one) => one.isClosed() || one.received(3) >= one.received(1))
    while (!isOver() && performance.now() - startedAt < 100_000) await pause(500)
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const left = open.filter((one) => !one.isClosed() && one.received(3) < one.received(1)).length
    for (const connection of open) connection[Symbol.dispose]()
    expect(left).toBe(0)
    return `${answered} streams with unread answers, Caddy and edge take ${memory} MiB, ended after ${seconds} s`
  })
})
