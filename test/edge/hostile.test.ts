import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestEdge, sendRaw, type TestEdge } from './test-edge.ts'

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
  await edge.publish('site', { 'index.html': 'home', 'blog/index.html': 'blog', 'ü.txt': 'umlaut', 'evil.test/index.html': 'x' })
})
afterAll(() => edge[Symbol.asyncDispose]())

const host = 'Host: site.plinth.test'
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])
const send = async (path: string, ...headers: string[]) => {
  const lines = [`GET ${path} HTTP/1.1`, ...(headers.length > 0 ? headers : [host]), 'Connection: close', '', '']
  return await sendRaw(edge.port, lines.join('\r\n'))
}

describe('hostile paths', () => {
  test.each([
    '/../etc/passwd',
    '/a/../index.html',
    '/%2e%2e/index.html',
    '/%2e/',
    '/.',
    '/a%2f%2e%2e%2findex.html',
    '/..%5cindex.html',
    '/a\\b',
    '/%5c%5cevil.test',
    '/index.html%00.js',
    '/%0d%0aSet-Cookie:a=b',
    '/%09/evil.test',
    '/%',
    '/%zz',
    '/%c0%ae%c0%ae/',
    '/\xff',
    '/\xc3\xbc.txt',
    '/blog?\xfc',
    '/a#b',
    '*',
    'index.html',
    'http://evil.test/',
    'http://site.plinth.test@evil.test/',
    'http://evil.test@site.plinth.test/',
  ])('%s is 400', async (path) => {
    const answer = await send(path)
    expect(statusOf(answer)).toBe(400)
    expect(answer).not.toMatch(/home|blog|Set-Cookie/)
  })

  test.each([
    ['/%2562log', 200, 'home'],
    ['//blog', 301, '\r\nLocation: /blog/\r\n'],
    ['//evil.test', 404, 'no such file'],
    ['/%2f%2fevil.test/', 200, 'x'],
    ['/blog?next=//evil.test', 301, '\r\nLocation: /blog/?next=//evil.test\r\n'],
    ['/%c3%bc.txt', 200, 'umlaut'],
    ['http://site.plinth.test/blog/', 200, 'blog'],
    ['http://SITE.plinth.test:80/blog/', 200, 'blog'],
  ])('%s is %i', async (path, status, content) => {
    const answer = await send(path)
    expect(statusOf(answer)).toBe(status)
    expect(answer).toContain(content)
  })
})

describe('hostile hosts', () => {
  test.each([
    ['none', 'X: y'],
    ['an empty one', 'Host:'],
    ['two equal ones', host, host],
    ['two different ones', host, 'host: other.plinth.test'],
    ['user information', 'Host: a@site.plinth.test'],
    ['an address', 'Host: 127.0.0.1:80'],
    ['a short address', 'Host: 127.1'],
    ['an IPv6 address', 'Host: [::1]'],
    ['a path', 'Host: site.plinth.test/x'],
    ['escapes', 'Host: site%2eplinth.test'],
    ['a list', 'Host: site.plinth.test, other.plinth.test'],
    ['an empty label', 'Host: site..plinth.test'],
    ['two final dots', 'Host: site.plinth.test..'],
    ['a strange port', 'Host: site.plinth.test:80:80'],
  ])('%s is 400', async (_name, ...headers) => {
    const answer = await send('/', ...headers)
    expect(statusOf(answer)).toBe(400)
    expect(answer).not.toMatch('home')
  })

  test.each(['Host: SITE.plinth.TEST', 'Host: site.plinth.test.', 'Host: site.plinth.test:8080', 'Host:   site.plinth.test  '])(
    '%s is the site',
    async (header) => {
      const answer = await send('/', header)
      expect(statusOf(answer)).toBe(200)
      expect(answer).toMatch(/home$/)
    },
  )

  test('a forwarded host is not believed', async () => {
    const answer = await send(
      '/',
      'Host: other.plinth.test',
      'X-Forwarded-Host: site.plinth.test',
      'Forwarded: host=site.plinth.test',
    )
    expect(statusOf(answer)).toBe(404)
  })
})

describe('hostile framing', () => {
  test.each([
    ['both lengths', 'GET / HTTP/1.1', host, 'Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['two lengths', 'GET / HTTP/1.1', host, 'Content-Length: 5', 'Content-Length: 6'],
    ['a space before the colon', 'GET / HTTP/1.1', 'Host : site.plinth.test'],
    ['a folded header', 'GET / HTTP/1.1', host, 'X: a', ' b'],
    ['a control character in a header', 'GET / HTTP/1.1', host, 'X: a\x01b'],
    ['a request of HTTP 0.9', 'GET /\nX: y HTTP/1.1', host],
  ])('%s is refused', async (_name, ...lines) => {
    const answer = await sendRaw(edge.port, [...lines, 'Connection: close', '', ''].join('\r\n'))
    expect(statusOf(answer)).toBe(400)
  })

  test('the body of a GET is not taken for a second request', async () => {
    const inner = `GET /blog/ HTTP/1.1\r\n${host}\r\n\r\n`
    const answer = await sendRaw(
      edge.port,
      `GET / HTTP/1.1\r\n${host}\r\nContent-Length: ${inner.length}\r\nConnection: close\r\n\r\n${inner}`,
    )
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
  })
})
