import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openCaddy } from '../edge/caddy-edge.ts'
import { ask, openTestEdge, platformDomain } from '../edge/test-edge.ts'

const sockets = 500
const byteEveryMs = 2000
const host = `site.${platformDomain}`

const post = `POST / HTTP/1.1\r\nHost: ${host}\r\n`

const tooSlow = '{"message":"the body arrived too slowly or broke off; send it again"}'

/** What comes before the bytes that trickle, in how many ms its connection is closed, and what is answered. */
const attacks = [
  ['headers', `GET / HTTP/1.1\r\nHost: ${host}\r\nX-Slow: `, 15_000, ''],
  ['a body', `${post}Content-Length: 10000\r\n\r\n`, 15_000, tooSlow],
  ['a body in chunks', `${post}Transfer-Encoding: chunked\r\n\r\n2710\r\n`, 15_000, tooSlow],
  // these bytes have paid for 17 s; what comes after the refusal counts as the headers of another request
  [
    'a body of which 70 KB were sent',
    `${post}Content-Length: 80000\r\n\r\n${'x'.repeat(70_000)}`,
    50_000,
    'Only GET and HEAD are allowed here.',
  ],
] as const

/** A request that goes on byte by byte and never ends. */
async function trickle(port: number, beginning: string) {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('error', () => undefined).on('data', (chunk: Buffer) => (answer += chunk.toString()))
  const startedAt = performance.now()
  await once(socket, 'connect')
  socket.write(beginning)
  const more = setInterval(() => socket.write('x'), byteEveryMs)
  const { promise: closed, resolve } = Promise.withResolvers<{ readonly afterMs: number; readonly answer: string }>()
  socket.once('close', () => {
    clearInterval(more)
    resolve({ afterMs: performance.now() - startedAt, answer })
  })
  return { closed }
}

test.each(attacks)(
  '52: connections of which %s never ends are closed soon, and visits go on beside them',
  async (what, beginning, closedMs, answer) => {
    await using caddy = await openCaddy()
    await using edge = await openTestEdge({ listen: { path: caddy.config.sockets.edge } })
    await edge.publish('site', { 'index.html': 'home' })
    const visit = async () => {
      const startedAt = performance.now()
      expect((await ask(caddy.port, '/', { host })).status).toBe(200)
      return performance.now() - startedAt
    }
    const p99 = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0
    const alone: number[] = []
    for (let i = 0; i < 300; i++) alone.push(await visit())
    // this process is busy itself while it opens and closes the connections; the visits between count
    const open = (await Promise.all(Array.from({ length: sockets }, () => trickle(caddy.port, beginning)))).map(
      ({ closed }) => closed,
    )
    const state = { closing: false }
    void Promise.race(open).then(() => {
      state.closing = true
    })
    const beside: number[] = []
    while (!state.closing) {
      const tookMs = await visit()
      if (!state.closing) beside.push(tookMs)
      await pause(10)
    }
    const ended = await Promise.all(open)
    const longest = Math.max(...ended.map(({ afterMs }) => afterMs))
    console.table([{ what, sockets, 'longest open (ms)': longest, 'p99 alone (ms)': p99(alone), 'p99 beside (ms)': p99(beside) }])
    expect(longest).toBeLessThan(closedMs)
    expect(ended.filter((one) => !one.answer.includes(answer))).toEqual([])
    expect(p99(beside)).toBeLessThan(Math.max(250, 2 * p99(alone)))
  },
)
