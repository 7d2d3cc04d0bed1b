import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deployIdOf } from '../../infra/crypto/permanent-tokens.ts'
import { createPreviewTokens, hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import type { Route } from '../../services/feeds/routes.ts'
import {
  type Ask,
  ask,
  type Files,
  lockOf,
  openTestEdge,
  permanentTokens,
  routeOf,
  sendRaw,
  storeFiles,
  type TestEdge,
} from './test-edge.ts'

const tokens = createPreviewTokens(Buffer.alloc(32, 1))
const tokenOf = (name: string) => tokens(name, 1)
const host = 'preview.test'

const app = {
  'index.html': '<h1>next</h1>',
  'about.html': 'about page',
  'both.html': 'both page',
  'both/index.html': 'both folder',
  'blog/index.html': 'blog',
  'ünï/index.html': 'unicode',
  'style.css': 'body{}'.repeat(200),
  'sw.js': 'self.addEventListener("fetch", () => {})',
  'assets/index-D1wrgTda.js': 'export {}',
}
const own404 = { 'index.html': 'home', '404.html': 'own not-found page' }

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
  await preview('app', app)
  await preview('own404', own404)
  await preview('off', app, { enabled: false })
  await preview('unpaid', app, { suspended: true })
  await preview('trashed', app, { trashed: true })
})
afterAll(() => edge[Symbol.asyncDispose]())

/** Gives the site `<name>` a preview of the files, at the link of that name. */
async function preparePreview(name: string, files: Files, more: Partial<Route> = {}): Promise<() => void> {
  const manifest_sha256 = await storeFiles(edge.cas, files)
  const previews = [{ token_sha256: hashPreviewToken(tokenOf(name)), deploy_id: `deploy of ${name}`, manifest_sha256 }]
  return () => edge.routes.apply([routeOf(name, null, { previews, ...more })], [])
}
const preview = async (name: string, files: Files, more?: Partial<Route>) => (await preparePreview(name, files, more))()

/** The two forms of the link: how to ask for a path, and what a redirect has before it. */
const forms = [
  ['below the prefix', (name: string, path: string, how?: Ask) => edge.ask(`/${tokenOf(name)}${path}`, { host, ...how }), true],
  [
    'on its own origin',
    (name: string, path: string, how?: Ask) => edge.ask(path, { host: `${tokenOf(name)}.${host}`, ...how }),
    false,
  ],
] as const

const text = (answer: { body: Buffer }) => answer.body.toString()

describe.each(forms)('a preview %s', (_where, get, prefixed) => {
  const before = (name: string) => (prefixed ? `/${tokenOf(name)}` : '')

  test.each([
    ['V01', '/style.css', 200, app['style.css']],
    ['V02', '/about', 200, 'about page'],
    ['V03', '/both', 200, 'both page'],
    ['V05', '/', 200, '<h1>next</h1>'],
    ['V05', '/blog/', 200, 'blog'],
    ['V07', '/deep/route', 200, '<h1>next</h1>'],
    ['V08', '/missing.js', 404, 'There is no such file on this site.\n'],
    ['V13', '/__svc/x', 404, 'There is no such file on this site.\n'],
  ])('P05 %s: %s is %i', async (_row, path, status, body) => {
    const answer = await get('app', path)
    expect([answer.status, text(answer)]).toEqual([status, body])
  })

  test('P05 V04: a redirect to a directory stays in the preview', async () => {
    for (const [path, location] of [
      ['/blog', '/blog/'],
      ['/blog?a=1', '/blog/?a=1'],
      ['/%C3%BCn%C3%AF', '/%C3%BCn%C3%AF/'],
    ] as const) {
      const answer = await get('app', path)
      expect([answer.status, answer.headers.location]).toEqual([301, before('app') + location])
    }
  })

  test('P05 V06: an own 404 page has status 404', async () => {
    const answer = await get('own404', '/nope')
    expect([answer.status, text(answer)]).toEqual([404, 'own not-found page'])
  })

  test('E9: every answer keeps itself out of indexes, referrers and caches', async () => {
    const tag = (await get('app', '/')).headers.etag as string
    const answers = [
      await get('app', '/'),
      await get('app', '/', { method: 'HEAD' }),
      await get('app', '/', { method: 'POST' }),
      await get('app', '/', { headers: { 'if-none-match': tag } }),
      await get('app', '/style.css', { headers: { range: 'bytes=0-3' } }),
      await get('app', '/style.css', { headers: { range: 'bytes=99999-' } }),
      await get('app', '/style.css', { headers: { 'accept-encoding': 'gzip' } }),
      await get('app', '/assets/index-D1wrgTda.js'),
      await get('app', '/blog'),
      await get('app', '/missing.js'),
      await get('app', '/sw.js', { headers: { 'service-worker': 'script' } }),
      await get('app', '/', { headers: { 'sec-fetch-dest': 'document' } }),
      await get('own404', '/nope'),
      await get('unpaid', '/'),
      await get('trashed', '/'),
    ]
    const statuses = [200, 200, 405, 304, 206, 416, 200, 200, 301, 404, 403, prefixed ? 307 : 200, 404, 503, 404]
    expect(answers.map((answer) => answer.status)).toEqual(statuses)
    for (const { headers } of answers) {
      expect(headers['cache-control']).toBe('private, no-store')
      expect(headers['x-robots-tag']).toBe('noindex')
      expect(headers['referrer-policy']).toBe('same-origin')
      expect(/(?:^|, )sandbox$/.test(String(headers['content-security-policy'] ?? ''))).toBe(prefixed)
    }
  })

  test('E9: a service worker is refused, whatever file it would be', async () => {
    for (const path of ['/sw.js', '/', '/deep/route']) {
      expect((await get('app', path, { headers: { 'service-worker': 'script' } })).status).toBe(403)
    }
    expect((await get('app', '/sw.js')).status).toBe(200)
  })

  test('the preview of a site that is switched off opens, of a suspended project or a site in the trash it does not', async () => {
    expect((await get('off', '/')).status).toBe(200)
    const unpaid = await get('unpaid', '/')
    expect([unpaid.status, text(unpaid)]).toEqual([503, expect.stringContaining('temporarily unavailable')])
    expect(text(await get('trashed', '/'))).toBe(text(await get('unknown', '/')))
  })
})

describe('a browser', () => {
  const token = tokenOf('app')
  const navigate = (path: string, headers: Record<string, string>) => edge.ask(path, { host, headers })
  test.each([
    ['a navigation', { 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate' }, true],
    ['a navigation over plain http', { 'upgrade-insecure-requests': '1' }, true],
    ['no browser', {}, false],
    ['an image', { 'sec-fetch-dest': 'image' }, false],
    ['a fetch', { 'sec-fetch-dest': 'empty', 'upgrade-insecure-requests': '1' }, false],
    ['a frame', { 'sec-fetch-dest': 'iframe', 'upgrade-insecure-requests': '1' }, false],
  ])('E9: %s: %j leads to the own origin: %s', async (_what, headers, led) => {
    const answer = await navigate(`/${token}/about?a=1`, headers)
    const location = `http://${token}.preview.test:8080/about?a=1`
    expect([answer.status, answer.headers.location]).toEqual(led ? [307, location] : [200, undefined])
  })

  test('P01: the link itself leads to the root, with or without the slash at its end', async () => {
    const browser = { 'sec-fetch-dest': 'document' }
    for (const path of [`/${token}`, `/${token}/`]) {
      expect((await navigate(path, browser)).headers.location).toBe(`http://${token}.preview.test:8080/`)
    }
    const plain = await navigate(`/${token}?a=1`, {})
    expect([plain.status, plain.headers.location]).toEqual([301, `/${token}/?a=1`])
  })

  test('cannot be led anywhere else by the path', async () => {
    for (const path of ['//evil.test', '/%2F%2Fevil.test', '/@evil.test', '/.evil.test', '/%0d%0aX:y']) {
      const { status, headers } = await navigate(`/${token}${path}`, { 'sec-fetch-dest': 'document' })
      if (status !== 400) expect(new URL(headers.location ?? '').host).toBe(`${token}.preview.test:8080`)
    }
  })
})

describe('a link that does not open', () => {
  const raw = async (path: string, name: string) => {
    const bytes = await sendRaw(edge.port, `GET ${path} HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`)
    return bytes.replace(/Date: .*\r\n/, '')
  }

  test('P04 E9: unknown, malformed and revoked are one answer, byte by byte', async () => {
    await preview('revoked', app)
    expect((await edge.ask(`/${tokenOf('revoked')}/`, { host })).status).toBe(200)
    edge.routes.apply([routeOf('revoked', null, { version: 2 })], [])
    const odd = [
      '',
      'robots.txt',
      'a'.repeat(51),
      'a'.repeat(53),
      tokenOf('app').toUpperCase(),
      `${'a'.repeat(51)}1`,
      '__proto__',
    ]
    const paths = [tokenOf('revoked'), 'a'.repeat(52), ...odd].flatMap((token) => [`/${token}`, `/${token}/about`])
    const answers = await Promise.all(paths.map((path) => raw(path, host)))
    expect(answers[0]).toMatch(/^HTTP\/1\.1 404 /)
    expect(new Set(answers).size).toBe(1)
    const names = [tokenOf('revoked'), 'a'.repeat(52), 'www', 'a'.repeat(51), `${tokenOf('app')}.x`, `x.${tokenOf('app')}`]
    const byHost = await Promise.all(names.map((name) => raw('/', `${name}.${host}`)))
    expect(byHost[0]).toMatch(/^HTTP\/1\.1 404 /)
    expect(new Set(byHost).size).toBe(1)
  })

  test('is told to come back while a link may exist that the edge does not know', async () => {
    edge.routes.setConnected(false)
    expect((await edge.ask(`/${'a'.repeat(52)}/`, { host })).status).toBe(503)
    expect((await edge.ask(`/${tokenOf('app')}/`, { host })).status).toBe(200)
    edge.routes.setConnected(true)
  })

  test('opens all the same when its notification comes a moment later', async () => {
    const publish = await preparePreview('late', app)
    const asked = edge.ask(`/${tokenOf('late')}/`, { host })
    await ask(edge.port, '/', { host: 'other.plinth.test' })
    publish()
    expect((await asked).status).toBe(200)
  })

  test('more guesses than may wait are all answered, and none opens', async () => {
    // of several addresses, each of which may only have so many requests waiting
    const from = (i: number) => ({ 'x-forwarded-for': `198.51.100.${i % 10}` })
    const guesses = Array.from({ length: 1200 }, (_, i) => edge.ask(`/${tokens('guess', i)}/`, { host, headers: from(i) }))
    expect((await Promise.all(guesses)).every((answer) => answer.status === 404)).toBe(true)
  })
})

describe('the links of a closed site', () => {
  const id = '01a2b3c4-d5e6-7f80-9123-456789abcdee'
  const close = async (previews_closed: boolean, version: number) => {
    const manifest_sha256 = await storeFiles(edge.cas, app)
    const permanent = [{ deploy_id: id, manifest_sha256, generation: 1 }]
    await preview('closed', app, { version, permanent, lock: lockOf({ previews_closed }) })
  }
  const open = async (token: string) => {
    const below = await edge.ask(`/${token}/about`, { host })
    const own = await edge.ask('/about', { host: `${token}.${host}` })
    return [below, own].map((answer) => `${answer.status} ${text(answer)}`)
  }

  test('E36: preview links open without the lock, and permanent links do not', async () => {
    await close(false, 1)
    expect(await open(tokenOf('closed'))).toEqual(['200 about page', '200 about page'])
    for (const answer of await open(permanentTokens(id, 1))) expect(answer).toMatch(/^401 /)
  })

  test('E36: preview links are unknown when they are closed as well, and permanent links stay', async () => {
    await close(true, 2)
    const unknown = await open('a'.repeat(52))
    expect(unknown[0]).toMatch(/^404 /)
    expect(await open(tokenOf('closed'))).toEqual(unknown)
    for (const answer of await open(permanentTokens(id, 1))) expect(answer).toMatch(/^401 /)
    await preview('closed', app, { version: 3 })
    expect(await open(tokenOf('closed'))).toEqual(['200 about page', '200 about page'])
  })

  test('E34: a permanent link sends those who open a page to a login of the site with the address of the page', async () => {
    await close(false, 4)
    const token = permanentTokens(id, 1)
    const navigation = { 'sec-fetch-dest': 'document' }
    const { status, headers } = await edge.ask('/%C3%BCn%C3%AF/?a=b&c', { host: `${token}.${host}`, headers: navigation })
    const location = new URL(headers.location ?? '')
    expect([status, location.origin + location.pathname]).toEqual([303, 'http://closed.plinth.test:8080/__svc/ticket'])
    expect(Object.fromEntries(location.searchParams)).toEqual({ link: token, to: '/%C3%BCn%C3%AF/?a=b&c' })
    const long = await edge.ask(`/?${'x'.repeat(2000)}`, { host: `${token}.${host}`, headers: navigation })
    expect(new URL(long.headers.location ?? '').searchParams.get('to')).toBe('/')
  })
})

test('a link follows its route: another manifest, another site, none', async () => {
  await preview('moves', { 'index.html': 'one' })
  const open = async () => text(await edge.ask(`/${tokenOf('moves')}/`, { host }))
  expect(await open()).toBe('one')
  await preview('moves', { 'index.html': 'two' }, { version: 2 })
  expect(await open()).toBe('two')
  edge.routes.apply([], ['id-of-moves'])
  expect(edge.routes.findPreview(hashPreviewToken(tokenOf('moves')))).toBeUndefined()
})

describe('a permanent link', () => {
  const id = '01a2b3c4-d5e6-7f80-9123-456789abcdef'
  const token = permanentTokens(id, 3)
  const permanent = (manifest_sha256: string) => [{ deploy_id: id, manifest_sha256, generation: 3 }]

  test('E34: opens in both forms like a preview, and follows its route', async () => {
    const manifest_sha256 = await storeFiles(edge.cas, app)
    edge.routes.apply([routeOf('lasting', null, { permanent: permanent(manifest_sha256) })], [])
    for (const answer of [await edge.ask('/about', { host: `${token}.${host}` }), await edge.ask(`/${token}/about`, { host })]) {
      expect([answer.status, text(answer), answer.headers['cache-control']]).toEqual([200, 'about page', 'private, no-store'])
    }
    const led = await edge.ask(`/${token}/about`, { host, headers: { 'sec-fetch-dest': 'document' } })
    expect([led.status, led.headers.location]).toEqual([307, `http://${token}.preview.test:8080/about`])
    edge.routes.apply([routeOf('lasting', null, { version: 2 })], [])
    expect((await edge.ask('/', { host: `${token}.${host}` })).status).toBe(404)
    expect(edge.routes.findPermanentLink(id)).toBeUndefined()
  })

  test('is the id of the deploy and a signature in 52 characters of base32', () => {
    expect(token).toMatch(/^[a-z2-7]{51}[aq]$/)
    expect(deployIdOf(token)).toBe(id)
    for (const odd of ['', 'a'.repeat(51), `${'a'.repeat(51)}1`, 'a'.repeat(54)]) expect(deployIdOf(odd)).toBeUndefined()
    const others = [permanentTokens(id, 4), permanentTokens(id.replace('f', '0'), 3), tokens(id, 3)]
    expect(new Set([token, ...others]).size).toBe(4)
  })
})

test('tokens are 52 characters of base32, differ by deploy, generation and key, and repeat', () => {
  const made = [tokens('a', 1), tokens('a', 2), tokens('b', 1), createPreviewTokens(Buffer.alloc(32, 2))('a', 1)]
  for (const token of made) expect(token).toMatch(/^[a-z2-7]{51}[aq]$/)
  expect(new Set(made).size).toBe(4)
  expect(tokens('a', 1)).toBe(made[0])
})
