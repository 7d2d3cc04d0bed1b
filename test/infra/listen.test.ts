import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { holdRequests, openServer } from '../../infra/listen.ts'

let dir: string
let path: string
let server: AsyncDisposable
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-listen-'))
  path = join(dir, 'http.sock')
  server = await openServer((_req, res) => res.end('ok'), { path }, { requestTimeoutMs: 60_000 })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

async function send(bytes: string): Promise<string> {
  const socket = connect(path)
  await once(socket, 'connect')
  socket.write(bytes)
  return await text(socket)
}

test.each([
  ['no HTTP at all', 'hello\r\n\r\n', 400],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400],
  ['a length and chunks', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
  ['headers of 64 KB', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(65_536)}\r\n\r\n`, 431],
])('C02 O04: a request with %s is answered with a message', async (_what, bytes, status) => {
  const [head = '', body = ''] = (await send(bytes)).split('\r\n\r\n')
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(Object.keys(JSON.parse(body) as object)).toEqual(['message'])
})

test('1: an answer has none of the headers that Caddy replaces, and its connection is kept', async () => {
  const socket = connect(path)
  const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
  for (const _again of [1, 2]) {
    socket.write(request)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(String(answer)).toBe('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  }
  socket.destroy()
})

test('only the user of the process can connect', async () => {
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})

test('34: a request that a proxy sends over a kept connection just as the server closes is answered, and told to be the last', async () => {
  const own = await openServer((_req, res) => res.end('ok'), { path: join(dir, 'own.sock') }, { requestTimeoutMs: 60_000 })
  const socket = connect(join(dir, 'own.sock'))
  const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
  socket.write(request)
  await once(socket, 'data')
  const closed = own[Symbol.asyncDispose]()
  socket.write(request)
  const answer = await text(socket)
  expect(answer).toMatch(/^HTTP\/1.1 200 /)
  expect(answer.toLowerCase()).toContain('connection: close')
  await closed
})

test('34: a request that comes before the process can answer waits instead of failing', async () => {
  const held = holdRequests()
  await using _own = await openServer(held.listener, { path: join(dir, 'held.sock') }, { requestTimeoutMs: 60_000 })
  const socket = connect(join(dir, 'held.sock'))
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  const answer = text(socket)
  await once(socket, 'connect')
  held.passTo((_req, res) => res.end('ready'))
  expect(await answer).toContain('ready')
})
