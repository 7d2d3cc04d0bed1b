import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { firstLine, openCaddy } from './caddy-edge.ts'
import { openTestEdge, platformDomain } from './test-edge.ts'

const host = `site.${platformDomain}`
const request = (line: string, ...headers: string[]) => [line, ...headers, '', ''].join('\r\n')
const to = (line: string, ...headers: string[]) => request(line, `Host: ${host}`, ...headers)
const websocket = ['Connection: Upgrade', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==']

/** What is sent, and with which status the edge and Caddy in front of it answer. */
const cases: readonly [name: string, bytes: string, edge: number, caddy: number][] = [
  ['CONNECT to the site', request(`CONNECT ${host}:443 HTTP/1.1`, `Host: ${host}:443`), 405, 501],
  ['CONNECT to another host', request('CONNECT elsewhere.test:443 HTTP/1.1', 'Host: elsewhere.test:443'), 405, 501],
  ['TRACE', to('TRACE / HTTP/1.1'), 405, 405],
  ['QUERY', to('QUERY / HTTP/1.1'), 405, 405],
  ['PROPFIND', to('PROPFIND / HTTP/1.1'), 405, 501],
  ['an unknown method', to('BREW / HTTP/1.1'), 400, 501],
  ['OPTIONS of a path', to('OPTIONS / HTTP/1.1'), 405, 405],
  // RFC 9110, 9.3.7: about the server as a whole, for which Caddy speaks
  ['OPTIONS of the server', to('OPTIONS * HTTP/1.1'), 405, 200],
  ['POST', to('POST / HTTP/1.1', 'Content-Length: 0'), 405, 405],
  ['DELETE', to('DELETE / HTTP/1.1'), 405, 405],
  ['an absolute address', to(`GET http://${host}/ HTTP/1.1`), 200, 200],
  // RFC 9112, 3.2.2: the host of the address counts, and the edge takes no part in the contradiction
  ['an absolute address of another host', to('GET http://elsewhere.test/ HTTP/1.1'), 400, 404],
  [
    'an upgrade to h2c',
    to('GET / HTTP/1.1', 'Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'HTTP2-Settings: AAMAAABk'),
    200,
    200,
  ],
  ['an upgrade to a WebSocket', to('GET / HTTP/1.1', 'Upgrade: websocket', ...websocket), 200, 200],
]

const statusOf = (line: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1])

let stack: AsyncDisposableStack
const ports = { edge: 0, caddy: 0 }
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  const caddy = stack.use(await openCaddy())
  const behind = stack.use(await openTestEdge({ listen: { path: caddy.config.sockets.edge } }))
  const edge = stack.use(await openTestEdge())
  for (const one of [behind, edge]) await one.publish('site', { 'index.html': 'home' })
  ports.edge = edge.port
  ports.caddy = caddy.port
})
afterAll(() => stack.disposeAsync())

describe.each(['edge', 'caddy'] as const)('asked directly, the %s answers', (which) => {
  test.each(cases)('%s', async (_name, bytes, edge, caddy) => {
    expect(statusOf(await firstLine(ports[which], bytes))).toBe({ edge, caddy }[which])
  })
})
