import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createBlockedPosts } from '../../api/visitor/refuse-blocked.ts'
import { createCounter } from '../../infra/limits.ts'

// Which requests are refused before Koa sees them; all others get 418 here. What the refusal says is tested in form-rates.test.ts.

const site = '01a20738-a3c1-7087-9df1-970f94cc0036'
const blocked = '192.0.2.1'
let now = new Date()
const recorded: unknown[] = []
const server = createServer()
beforeAll(async () => {
  const blocks = createCounter(60)
  blocks.block(`address:${blocked}`, new Date(now.getTime() + 30_000))
  blocks.block(`site:${site}`, new Date(now.getTime() + 30_000))
  const refuse = createBlockedPosts({ clock: () => now }, blocks, {}, (request) => recorded.push(request))
  server.on('request', (request, response) => {
    if (!refuse(request, response)) response.writeHead(418).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => void server.close())

const port = () => (server.address() as AddressInfo).port
const send = (method: string, path: string, address: string) =>
  fetch(`http://127.0.0.1:${port()}${path}`, { method, headers: { 'x-forwarded-for': address } })

test.each([
  ['POST', `/f/${site}`, '192.0.2.2', 429],
  ['POST', `/f/${site.toUpperCase()}?x=1`, '192.0.2.2', 429],
  ['POST', '/f/other', blocked, 429],
  ['POST', '/f/other?', blocked, 429],
  ['POST', '/f/other', '192.0.2.2', 418],
  ['POST', '/f/', blocked, 418],
  ['POST', `/f/${site}/`, blocked, 418],
  ['POST', `/f/${site}/x`, blocked, 418],
  ['POST', `/F/${site}`, blocked, 418],
  ['POST', '/api/v1/sites', blocked, 418],
  ['GET', `/f/${site}`, blocked, 418],
  ['HEAD', `/f/${site}`, blocked, 418],
  ['OPTIONS', `/f/${site}`, blocked, 418],
])('F12 7: %s %s from %s gets %i', async (method, path, address, status) => {
  expect((await send(method, path, address)).status).toBe(status)
})

test('F12 7: a block ends', async () => {
  now = new Date(now.getTime() + 30_001)
  const { status } = await send('POST', '/f/other', blocked)
  now = new Date(now.getTime() - 30_001)
  expect(status).toBe(418)
})

test('a refusal is recorded with its route, without the query', async () => {
  await send('POST', '/f/other?secret', blocked)
  const expected = { route: 'POST /f/{site_id}', method: 'POST', path: '/f/other', status: 429, ms: expect.any(Number) }
  expect(recorded.at(-1)).toEqual(expected)
})

test('47: a refusal does not wait for the body, takes any bytes as the origin, and the connection is used on after it', async () => {
  const socket = connect(port(), '127.0.0.1')
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  const count = () => received.split('HTTP/1.1 429').length - 1
  const head = `POST /f/${site} HTTP/1.1\r\nhost: x\r\norigin: \xe9\xff "<\r\ncontent-length: 10000\r\n\r\n`
  socket.write(head, 'latin1')
  await expect.poll(count).toBe(1)
  expect(received).toContain('access-control-allow-origin: ')
  socket.write('x'.repeat(10_000))
  socket.write(head, 'latin1')
  await expect.poll(count).toBe(2)
  socket.destroy()
})
