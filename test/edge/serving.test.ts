import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestEdge, platformDomain, type TestEdge } from './test-edge.ts'

const longText = 'the same words again and again, '.repeat(200)
const png = Buffer.from('89504e470d0a1a0a', 'hex')

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
  await edge.publish('site', {
    'index.html': `<h1>home</h1>${longText}`,
    'about.html': 'about page',
    'blog/index.html': 'blog',
    'both.html': 'both page',
    'both/index.html': 'both folder',
    'ünï/index.html': 'unicode',
    'style.css': longText,
    'tiny.txt': 'x',
    'empty.txt': '',
    'logo.png': png,
    'data.json': '{}',
    'server.js': 'require("http").createServer().listen()',
    '_astro/entry.js': longText,
    'app.3f2a91bc.js': longText,
    _headers: '/*\n  Cache-Control: max-age=1',
    'file with spaces?.txt': 'odd name',
  })
  await edge.publish('own404', { 'index.html': 'home', '404.html': 'own not-found page' })
})
afterAll(() => edge[Symbol.asyncDispose]())

const at = (name: string) => ({ host: `${name}.${platformDomain}` })
const text = (answer: { body: Buffer }) => answer.body.toString()

describe('serving rules', () => {
  test.each([
    ['V01', '/style.css', 'text/css; charset=utf-8'],
    ['V01', '/logo.png', 'image/png'],
    ['V01', '/data.json', 'application/json; charset=utf-8'],
    ['V01 V18', '/server.js', 'text/javascript; charset=utf-8'],
    ['V05', '/', 'text/html; charset=utf-8'],
  ])('%s: %s has the type %s', async (_row, path, type) => {
    const answer = await edge.ask(path)
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toBe(type)
    expect(answer.headers['x-content-type-options']).toBe('nosniff')
  })

  test.each([
    ['V02', '/about', 'about page'],
    ['V03', '/both', 'both page'],
    ['V05', '/blog/', 'blog'],
    ['V18', '/server.js', 'require("http").createServer().listen()'],
    ['V01', '/file%20with%20spaces%3F.txt', 'odd name'],
    ['V01', '//style.css', longText],
    ['V01', '/empty.txt', ''],
  ])('%s: %s answers with %s', async (_row, path, body) => {
    const answer = await edge.ask(path)
    expect(answer.status).toBe(200)
    expect(text(answer)).toBe(body)
  })

  test.each([
    ['/blog', '/blog/'],
    ['/blog?a=1&b=/c', '/blog/?a=1&b=/c'],
    ['//blog', '/blog/'],
    ['/%C3%BCn%C3%AF', '/%C3%BCn%C3%AF/'],
  ])('V04: %s is redirected to %s', async (path, location) => {
    const answer = await edge.ask(path)
    expect(answer.status).toBe(301)
    expect(answer.headers.location).toBe(location)
    expect(answer.headers['cache-control']).toBe('no-cache')
  })

  test('V06 V08: a missing path gets the own 404 page with status 404, with and without an extension', async () => {
    for (const path of ['/nope', '/nope/', '/nope.js']) {
      const answer = await edge.ask(path, at('own404'))
      expect([answer.status, text(answer)]).toEqual([404, 'own not-found page'])
      expect(answer.headers['cache-control']).toBe('no-cache')
    }
  })

  test('V07 V09: without a 404 page a route of an app gets index.html', async () => {
    const answer = await edge.ask('/deep/route')
    expect(answer.status).toBe(200)
    expect(text(answer)).toMatch('<h1>home</h1>')
    expect(answer.headers['cache-control']).toBe('no-cache')
  })

  test('V08: a missing path with an extension is a plain 404 that nobody keeps', async () => {
    const answer = await edge.ask('/missing.js')
    expect(answer.status).toBe(404)
    expect(answer.headers['content-type']).toMatch('text/plain')
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(text(answer)).not.toMatch('home')
  })

  test.each([
    ['V09', '/about.html', 'no-cache'],
    ['V10', '/_astro/entry.js', 'max-age=31536000, immutable'],
    ['V10', '/app.3f2a91bc.js', 'max-age=31536000, immutable'],
    ['V11', '/logo.png', 'max-age=300'],
    ['V12', '/style.css', 'max-age=300'],
  ])('%s: %s has Cache-Control %s', async (_row, path, policy) => {
    expect((await edge.ask(path)).headers['cache-control']).toBe(policy)
  })

  test('V13: nothing is served below the reserved prefix, not even the page of an app', async () => {
    for (const path of ['/__svc/login', '/__svc/', '/__SVC/x', '/%5f%5fsvc/x', '//__svc/x']) {
      for (const site of ['site', 'own404']) {
        const answer = await edge.ask(path, at(site))
        expect([path, answer.status]).toEqual([path, 404])
        expect(text(answer)).not.toMatch(/home|own/)
      }
    }
  })

  test('V14: service files that were filtered at the deploy are 404', async () => {
    expect((await edge.ask('/.git/config.txt', at('own404'))).status).toBe(404)
    expect((await edge.ask('/.env.local')).status).toBe(404)
  })
})

describe('V17: gzip variants', () => {
  test('a text is sent compressed to a client that accepts it', async () => {
    const answer = await edge.ask('/style.css', { headers: { 'accept-encoding': 'gzip, deflate, br' } })
    expect(answer.headers['content-encoding']).toBe('gzip')
    expect(answer.headers.vary).toBe('Accept-Encoding')
    expect(Number(answer.headers['content-length'])).toBe(answer.body.length)
    expect(gunzipSync(answer.body).toString()).toBe(longText)
    expect(answer.headers.etag).toMatch(/^"[0-9a-f]{64}-gzip"$/)
  })

  test.each([
    {},
    { 'accept-encoding': 'identity' },
    { 'accept-encoding': 'gzip;q=0' },
    { 'accept-encoding': 'gzip', range: 'bytes=0-' },
  ])('it is sent as it is for %j', async (headers) => {
    const answer = await edge.ask('/style.css', { headers })
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(answer.headers.vary).toBe('Accept-Encoding')
    expect(text(answer)).toBe(longText)
  })

  test.each([
    ['/tiny.txt', 'Accept-Encoding'],
    ['/logo.png', undefined],
  ])('%s has no gzip variant', async (path, vary) => {
    const answer = await edge.ask(path, { headers: { 'accept-encoding': 'gzip' } })
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(answer.headers.vary).toBe(vary)
  })
})

describe('requests', () => {
  test.each(['/style.css', '/nope.js', '/blog', '/'])('HEAD of %s has the headers of GET and no body', async (path) => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }] as Record<string, string>[]) {
      const get = await edge.ask(path, { headers })
      const head = await edge.ask(path, { method: 'HEAD', headers })
      expect(head.body.length).toBe(0)
      expect(head.status).toBe(get.status)
      expect({ ...head.headers, date: '' }).toEqual({ ...get.headers, date: '' })
    }
  })

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE', 'PROPFIND'])('%s is 405', async (method) => {
    const answer = await edge.ask('/', { method })
    expect(answer.status).toBe(405)
    expect(answer.headers.allow).toBe('GET, HEAD')
    expect(answer.headers['cache-control']).toBe('no-store')
  })
})

describe('sites that are not served', () => {
  test.each([
    ['S13 V15: disabled', { enabled: false }, 503, 'temporarily unavailable'],
    ['suspended', { suspended: true }, 503, 'temporarily unavailable'],
    ['V15 T02: trashed', { trashed: true }, 404, 'no site at this address'],
    ['trashed and disabled', { trashed: true, enabled: false }, 404, 'no site at this address'],
    ['not published', { manifest_sha256: null }, 404, 'Nothing is published here yet'],
  ])('%s', async (_name, change, status, title) => {
    await edge.publish('switched', { 'index.html': 'home' })
    const known = edge.routes.find(`switched.${platformDomain}`)?.route
    expect((await edge.ask('/', at('switched'))).status).toBe(200)
    edge.routes.apply([{ ...(known as NonNullable<typeof known>), ...change, version: 2 }], [])
    for (const path of ['/', '/index.html', '/nope.js', '/blog']) {
      const answer = await edge.ask(path, at('switched'))
      expect(answer.status).toBe(status)
      expect(text(answer)).toMatch(title)
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/)
      expect(answer.headers['retry-after']).toBe(status === 503 ? '3600' : undefined)
    }
    edge.routes.apply([], ['id-of-switched'])
  })

  test.each(['other.plinth.test', 'plinth.test', 'a.site.plinth.test', 'site.plinth.test.evil.test', 'localhost'])(
    '%s is an unknown host: 404, and 503 while a site may have been missed',
    async (host) => {
      expect((await edge.ask('/', { host })).status).toBe(404)
      edge.routes.setConnected(false, 'test')
      const answer = await edge.ask('/', { host })
      edge.routes.setConnected(true)
      expect(answer.status).toBe(503)
      expect(answer.headers['retry-after']).toBe('5')
      expect(answer.headers['cache-control']).toBe('no-store')
    },
  )

  test('a known site is served while the routes are not fresh', async () => {
    edge.routes.setConnected(false, 'test')
    const answer = await edge.ask('/about')
    edge.routes.setConnected(true)
    expect(answer.status).toBe(200)
  })
})
