import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPreviewTokens, hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { type Ask, openTestEdge, platformDomain, routeOf, storeFiles, type TestEdge } from './test-edge.ts'

const longText = 'the same words again and again, '.repeat(200)
const token = createPreviewTokens(Buffer.alloc(32, 1))('rules', 1)

const files = {
  'index.html': 'home',
  '404.html': 'own not-found page',
  'about.html': 'about page',
  'contact.html': 'contact page',
  'blog/index.html': 'blog',
  'app/index.html': 'the app',
  'en/404.html': 'no such page',
  'style.css': longText,
  'data.txt': 'plain',
  _redirects: `
# the order counts
/old                /about
/s301               /about          301
/s302               /about          302
/s303               /about          303
/s307               /about          307
/s308               /about          308
/with-query         /about?from=old
/elsewhere/*        https://example.com/:splat
/about              /contact        302   # a file wins
/blog/              /contact        302!
/app/*              /app/           200
/en/*               /en/404.html    404
/store  id=:id      /shop/:id
/year/:year/:slug   /posts/:slug-:year
/self               /self
`,
  _headers: `
/*
  X-Everywhere: yes
  Referrer-Policy: no-referrer
  X-Robots-Tag: all
  Content-Security-Policy: default-src 'self'
  NEL: {"report_to":"x"}
/style.css
  Access-Control-Allow-Origin: *
/data.txt
  Content-Type: text/x-notes; charset=utf-8
  Cache-Control: max-age=1
/blog/*
  X-Blog: yes
`,
}

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
  await edge.publish('site', files)
  await edge.publish('canonical', files, { canonical_urls: true })
  const manifest_sha256 = await storeFiles(edge.cas, files)
  const previews = [{ token_sha256: hashPreviewToken(token), deploy_id: 'preview', manifest_sha256 }]
  edge.routes.apply([routeOf('rules', null, { previews })], [])
})
afterAll(() => edge?.[Symbol.asyncDispose]())

/** The status and what it leads to: an address or a text. */
async function answerOf(path: string, how?: Ask): Promise<[number, string]> {
  const { status, headers, body } = await edge.ask(path, how)
  return [status, headers.location ?? body.toString()]
}

describe('E32: _redirects', () => {
  test.each([
    ['/old', 301, '/about'],
    ['/old/', 301, '/about'],
    ['/s301', 301, '/about'],
    ['/s302', 302, '/about'],
    ['/s303', 303, '/about'],
    ['/s307', 307, '/about'],
    ['/s308', 308, '/about'],
    ['/old?a=1&b=%2F', 301, '/about?a=1&b=%2F'],
    ['/with-query?a=1', 301, '/about?from=old'],
    ['/elsewhere/a/b?c=d', 301, 'https://example.com/a/b?c=d'],
    ['/elsewhere/', 301, 'https://example.com/'],
    ['/store?id=7', 301, '/shop/7?id=7'],
    ['/year/2024/hello', 301, '/posts/hello-2024'],
    ['/about', 200, 'about page'],
    ['/blog/', 302, '/contact'],
    ['/app/deep/route', 200, 'the app'],
    ['/en/nope', 404, 'no such page'],
    ['/store', 404, 'own not-found page'],
    ['/self', 404, 'own not-found page'],
    ['/nope', 404, 'own not-found page'],
  ])('%s answers %i %s', async (path, status, target) => {
    expect(await answerOf(path)).toEqual([status, target])
  })

  test('V08: a splat rewrite to a page does not answer for a path with another extension', async () => {
    expect(await answerOf('/app/missing.js')).toEqual([404, 'own not-found page'])
  })

  test('a redirect is revalidated each time and has no body', async () => {
    for (const method of ['GET', 'HEAD']) {
      const { headers, body } = await edge.ask('/old', { method })
      expect(headers).toMatchObject({ 'cache-control': 'no-cache', 'content-length': '0' })
      expect(headers['x-everywhere']).toBeUndefined()
      expect(body.length).toBe(0)
    }
  })

  test('a captured text neither leaves the site nor ends the header', async () => {
    for (const path of ['/elsewhere//evil.example', '/elsewhere/%2F%2Fevil.example', '/elsewhere/@evil.example']) {
      expect((await answerOf(path))[1]).toMatch(/^https:\/\/example\.com\/|not-found/)
    }
    expect((await answerOf('/elsewhere/a%0d%0aSet-Cookie:x'))[0]).toBe(400)
  })

  test.each(['_redirects', '_headers'])('%s itself answers as missing', async (path) => {
    expect(await answerOf(`/${path}`)).toEqual([404, 'own not-found page'])
  })
})

describe('E32: _headers', () => {
  const headersOf = async (path: string, how?: Ask) => (await edge.ask(path, how)).headers

  test('all blocks that match the path of the request apply', async () => {
    expect(await headersOf('/style.css')).toMatchObject({ 'x-everywhere': 'yes', 'access-control-allow-origin': '*' })
    expect(await headersOf('/blog/nope')).toMatchObject({ 'x-everywhere': 'yes', 'x-blog': 'yes' })
    expect((await headersOf('/about'))['x-blog']).toBeUndefined()
  })

  test('a Content-Type replaces that of the platform, once', async () => {
    expect((await headersOf('/data.txt'))['content-type']).toBe('text/x-notes; charset=utf-8')
  })

  test('V12: Cache-Control stays that of the platform', async () => {
    expect((await headersOf('/data.txt'))['cache-control']).toBe('max-age=300')
  })

  test('they are on the page of a 404 and on a rewrite', async () => {
    expect((await edge.ask('/nope')).headers['x-everywhere']).toBe('yes')
    expect((await edge.ask('/app/x')).headers['x-everywhere']).toBe('yes')
  })

  test('they are on compressed, partial and unchanged answers, whose own headers stay', async () => {
    const gzip = await edge.ask('/style.css', { headers: { 'accept-encoding': 'gzip' } })
    expect(gunzipSync(gzip.body).toString()).toBe(longText)
    expect(gzip.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding', 'x-everywhere': 'yes' })
    const part = await edge.ask('/style.css', { headers: { range: 'bytes=0-3' } })
    expect([part.status, part.body.toString()]).toEqual([206, 'the '])
    expect(part.headers).toMatchObject({ 'content-range': `bytes 0-3/${longText.length}`, 'x-everywhere': 'yes' })
    const unchanged = await edge.ask('/style.css', { headers: { 'if-none-match': gzip.headers.etag ?? '' } })
    expect(unchanged.status).toBe(304)
    expect(unchanged.headers).toMatchObject({ vary: 'Accept-Encoding', 'access-control-allow-origin': '*' })
    expect((await edge.ask('/style.css', { method: 'HEAD' })).headers['x-everywhere']).toBe('yes')
  })

  test('one file has the headers of the path at which it is asked for', async () => {
    await edge.publish('paths', {
      'index.html': 'home',
      _headers: '/\n  X-At: root\n/index.html\n  X-At: file\n/deep/*\n  X-At: deep',
    })
    const host = `paths.${platformDomain}`
    const asked = ['/', '/index.html', '/deep/route', '/other', '/', '/index.html']
    const found = []
    for (const path of asked) found.push((await edge.ask(path, { host })).headers['x-at'])
    expect(found).toEqual(['root', 'file', 'deep', undefined, 'root', 'file'])
  })
})

test('E32: with headers, a rule on the query still chooses between two files at their own addresses', async () => {
  await edge.publish('query', {
    notes: 'plain',
    'notes.html': 'page',
    _redirects: '/notes as=page /notes.html 200!',
    _headers: '/*\n  X-Everywhere: yes',
  })
  const texts = async (path: string) => (await edge.ask(path, { host: `query.${platformDomain}` })).body.toString()
  for (let round = 0; round < 2; round++) {
    expect(await texts('/notes')).toBe('plain')
    expect(await texts('/notes?as=page')).toBe('page')
  }
})

describe('E32: canonical_urls', () => {
  const host = `canonical.${platformDomain}`
  test.each([
    ['/about.html', '/about'],
    ['/about.html?a=1', '/about?a=1'],
    ['/app/index.html', '/app/'],
    ['/index.html', '/'],
    ['/contact/', '/contact'],
  ])('%s redirects to %s', async (path, target) => {
    expect(await answerOf(path, { host })).toEqual([301, target])
    expect((await edge.ask(path)).status).not.toBe(301)
  })

  test.each(['/about', '/app/', '/', '/contact'])('%s answers itself', async (path) => {
    expect((await edge.ask(path, { host })).status).toBe(200)
  })
})

const forms: [string, { host: string; prefix: string }][] = [
  ['below the prefix', { host: 'preview.test', prefix: `/${token}` }],
  ['on its own origin', { host: `${token}.preview.test`, prefix: '' }],
]
describe.each(forms)('P05: a preview %s', (_name, { host, prefix }) => {
  test('follows the rules of its deploy, and its redirects stay in it', async () => {
    const at = (path: string) => answerOf(prefix + path, { host })
    expect(await at('/old?a=1')).toEqual([301, `${prefix}/about?a=1`])
    expect(await at('/elsewhere/a')).toEqual([301, 'https://example.com/a'])
    expect(await at('/app/x')).toEqual([200, 'the app'])
    expect(await at('/en/x')).toEqual([404, 'no such page'])
  })

  test('E9: has the headers of its deploy, but neither its own nor those that would hold for other previews', async () => {
    const { headers } = await edge.ask(`${prefix}/about`, { host })
    expect(headers).toMatchObject({
      'x-everywhere': 'yes',
      'referrer-policy': 'same-origin',
      'x-robots-tag': 'noindex',
      'cache-control': 'private, no-store',
      'content-security-policy': prefix ? 'sandbox' : "default-src 'self'",
    })
    expect(headers.nel).toBe(prefix ? undefined : '{"report_to":"x"}')
  })
})
