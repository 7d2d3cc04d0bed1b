import { createHash, randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { anybody, type Visit } from '../../infra/crypto/visits.ts'
import { noTerms, type RouteBrand, type RouteLock } from '../../services/feeds/locks.ts'
import { type Ask, type Files, lockOf, openTestEdge, platformDomain, type TestEdge, visits } from './test-edge.ts'

const host = `site.${platformDomain}`
const epoch = lockOf().epoch
const day = 24 * 3_600_000
const files = {
  'index.html': 'home',
  '404.html': 'own not-found page',
  'app.3f9a1c7be2d4.js': 'script',
  _redirects: '/old /new 301',
  _headers: '/*\n  Content-Type: Cache-Control\n  X-Own: yes',
}
const html = { accept: 'text/html' }

let edge: TestEdge
let version = 0
beforeAll(async () => {
  edge = await openTestEdge()
})
afterAll(() => edge[Symbol.asyncDispose]())

const close = (lock: Partial<RouteLock> = {}) => edge.publish('site', files, { lock: lockOf(lock), version: ++version })
const visit = (more: Partial<Visit> = {}) =>
  visits.issue(
    { site_id: 'id-of-site', host, epoch },
    { subject: anybody, generation: 0, consent: 0, until: new Date(Date.now() + day), ...more },
  )
const withVisit = (text = visit()) => ({ headers: { cookie: `svc_s=${text}` } })
const status = async (path: string, options?: Ask) => (await edge.ask(path, options)).status

describe('a closed site', () => {
  test('L02: shows the login page to browsers, which leads back to the address', async () => {
    await close()
    for (const headers of [html, { 'sec-fetch-dest': 'document' }, { 'upgrade-insecure-requests': '1' }]) {
      const { status, headers: sent, body } = await edge.ask('/deep/page?a=1', { headers })
      expect([status, sent['cache-control'], sent.etag]).toEqual([401, 'no-store', undefined])
      expect(body.toString()).toContain(`action="${gatePaths.password}"`)
      expect(body.toString()).toContain('value="/deep/page?a=1"')
    }
  })

  test('L02: answers a bare 401 to other clients, whatever they ask for', async () => {
    await close()
    const others = [{}, { accept: '*/*' }, { 'sec-fetch-dest': 'script' }, { accept: 'text/html;q=0' }]
    for (const headers of others) {
      const { status, headers: sent, body } = await edge.ask('/index.html', { headers })
      expect([status, sent['cache-control'], sent['content-type']]).toEqual([401, 'no-store', 'text/plain; charset=utf-8'])
      expect(body.toString()).not.toContain('home')
    }
  })

  test('E02: asks for an address when codes open it', async () => {
    await close({ mode: 'email' })
    expect((await edge.ask('/', { headers: html })).body.toString()).toContain(`action="${gatePaths.email}"`)
  })

  test('L02: a visit opens it, and no shared cache keeps what it shows', async () => {
    await close()
    for (const [path, status, body] of [
      ['/', 200, 'home'],
      ['/app.3f9a1c7be2d4.js', 200, 'script'],
      ['/missing.css', 404, 'own not-found page'],
      ['/old', 301, ''],
    ] as const) {
      const answer = await edge.ask(path, withVisit())
      expect([answer.status, answer.body.toString()]).toEqual([status, body])
      expect([path, answer.headers['cache-control']]).toEqual([path, 'private, no-cache'])
      expect([path, answer.headers.vary]).toEqual([path, expect.stringMatching(/(^|, )Cookie, X-Plinth-Bypass$/)])
    }
    expect((await edge.ask('/', withVisit())).headers).toMatchObject({
      vary: 'Accept-Encoding, Cookie, X-Plinth-Bypass',
      'x-own': 'yes',
    })
  })

  test('L02: a visit has conditions and ranges', async () => {
    await close()
    const { etag } = (await edge.ask('/', withVisit())).headers
    const { cookie } = withVisit().headers
    const unchanged = await edge.ask('/', { headers: { cookie, 'if-none-match': String(etag) } })
    expect([unchanged.status, unchanged.headers['cache-control']]).toEqual([304, 'private, no-cache'])
    expect((await edge.ask('/', { headers: { cookie, range: 'bytes=0-1' } })).body.toString()).toBe('ho')
  })

  test('check 70: other sites of the domain cannot embed what a visit opens, unless its owner lets them', async () => {
    const policyOf = async (more: Files) => {
      await edge.publish('site', { ...files, ...more }, { lock: lockOf(), version: ++version })
      return (await edge.ask('/app.3f9a1c7be2d4.js', withVisit())).headers['cross-origin-resource-policy']
    }
    expect(await policyOf({})).toBe('same-origin')
    expect(await policyOf({ _headers: '/*\n  Cross-Origin-Resource-Policy: same-site' })).toBe('same-site')
  })

  test('L06: a change of the password ends visits', async () => {
    await close()
    expect(await status('/', withVisit())).toBe(200)
    await close({ epoch: randomUUID() })
    expect(await status('/', withVisit())).toBe(401)
  })

  test('L05: a site without a lock is open again, and cached as before', async () => {
    await close()
    await edge.publish('site', files, { version: ++version })
    const { status, headers } = await edge.ask('/')
    expect([status, headers['cache-control'], headers.vary]).toEqual([200, 'no-cache', 'Accept-Encoding'])
  })

  test('E07: the visit of an address that was removed is over, those of others are not', async () => {
    const [removed, other] = [randomUUID(), randomUUID()]
    await close({ mode: 'email', generations: [{ subject: removed, generation: 2 }] })
    const at = (subject: string, generation: number) => status('/', withVisit(visit({ subject, generation })))
    expect([await at(removed, 1), await at(removed, 2), await at(other, 0)]).toEqual([401, 200, 200])
  })

  test('L07: nobody enters and nobody stays after the end', async () => {
    const expires_at = new Date(Date.now() - 1).toISOString()
    const bypass_sha256 = createHash('sha256').update('token').digest('hex')
    await close({ expires_at, bypass_sha256 })
    const answers = [
      await edge.ask('/', withVisit()),
      await edge.ask('/', { headers: { 'x-plinth-bypass': 'token' } }),
      await edge.ask('/', { headers: html }),
    ]
    expect(answers.map((answer) => answer.status)).toEqual([401, 401, 401])
    expect(answers[2]?.body.toString()).not.toContain('<form')
    await close({ expires_at: new Date(Date.now() + day).toISOString() })
    expect(await status('/', withVisit())).toBe(200)
  })

  test('E36: the token of the lock passes, once in a request', async () => {
    await close({ bypass_sha256: createHash('sha256').update('token').digest('hex') })
    const at = async (token: string) => status('/', { headers: { 'x-plinth-bypass': token } })
    expect([await at('token'), await at('Token'), await at(''), await at('token, token'), await at('x'.repeat(5000))]).toEqual([
      200, 401, 401, 401, 401,
    ])
  })

  test('E36: over https only the secure cookie counts, over http only the other one', async () => {
    await close()
    const at = (scheme: string, name: string) =>
      status('/', { headers: { cookie: `${name}=${visit()}`, 'x-forwarded-proto': scheme } })
    expect(await at('http', 'svc_s')).toBe(200)
    expect(await at('https', '__Host-svc_s')).toBe(200)
    expect(await at('https', 'svc_s')).toBe(401)
    expect(await at('http', '__Host-svc_s')).toBe(401)
  })
})

describe.each(['members', 'paid'] as const)('M07: with the lock %s, a visit of an earlier consent', (mode) => {
  const asking = { mode, consent_version: 2, terms: { ...noTerms, consent_mode: 'notice' } } as const
  const at = (consent: number, more = {}) =>
    edge.ask('/deep?a=1', { headers: { ...withVisit(visit({ consent })).headers, ...more } })

  test('sees the page that asks again, and nothing else', async () => {
    await close(asking)
    const { status, headers, body } = await at(1, html)
    expect([status, headers['cache-control'], headers.location]).toEqual([401, 'no-store', undefined])
    expect(body.toString()).toMatch(new RegExp(`action="${gatePaths.consent}".*value="/deep\\?a=1"`, 's'))
    expect((await at(1)).headers['content-type']).toBe('text/plain; charset=utf-8')
    expect((await at(2)).status).toBe(404)
  })

  test('passes while the site asks for no consent', async () => {
    await close({ ...asking, terms: noTerms })
    expect((await at(1)).status).toBe(404)
  })
})

describe('M02: the visit of a subscriber that is over', () => {
  const over = withVisit(visit({ until: new Date(Date.now() - 1000) })).headers
  const navigation = { 'sec-fetch-dest': 'document' }
  const ask = (path: string, headers: object) => edge.ask(path, { headers: { ...over, ...headers } })

  test('is sent to its renewal, and back to the page', async () => {
    await close({ mode: 'subscribers' })
    const { status, headers, body } = await ask('/deep/%C3%BC?a=1&b=2', navigation)
    expect([status, headers['cache-control'], body.length]).toEqual([303, 'no-store', 0])
    expect(headers.location).toBe('/__svc/renew?to=%2Fdeep%2F%25C3%25BC%3Fa%3D1%26b%3D2')
    expect((await ask(`/${'a'.repeat(3000)}`, navigation)).headers.location).toBe('/__svc/renew?to=%2F')
  })

  test('is refused otherwise', async () => {
    await close({ mode: 'subscribers' })
    for (const headers of [{}, html, { 'sec-fetch-dest': 'script' }, { 'sec-fetch-dest': 'iframe' }])
      expect((await ask('/', headers)).status).toBe(401)
    expect((await edge.ask('/', { method: 'HEAD', headers: { ...over, ...navigation } })).status).toBe(401)
    await close({ mode: 'members' })
    expect((await ask('/', navigation)).status).toBe(401)
  })
})

test('L09: the images of the login page open without a visit', async () => {
  const { sha256, size } = await edge.cas.put(Buffer.from('an image'))
  const none = {
    title: null,
    description: null,
    logo_framed: false,
    logo_rounded: false,
    favicon_sha256: null,
    favicon_size: null,
  }
  const brand: RouteBrand = { ...none, logo_sha256: sha256, logo_size: size, favicon_mode: 'site' }
  await close({ brand })
  const logo = await edge.ask(`${gatePaths.brand}logo.webp?v=1`)
  expect([logo.status, logo.headers['content-type'], logo.body.toString()]).toEqual([200, 'image/webp', 'an image'])
  expect(await status(`${gatePaths.brand}favicon.webp`)).toBe(404)
  expect(await status(`${gatePaths.brand}logo.webp/x`)).toBe(404)
  await close()
  expect(await status(`${gatePaths.brand}logo.webp`)).toBe(404)
})

describe('E36: without PostgreSQL', () => {
  const minute = 60_000
  const preview = { token_sha256: hashPreviewToken('a'.repeat(52)), deploy_id: 'shown', manifest_sha256: '' }
  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    edge.routes.setConnected(true)
    const { manifest_sha256 } = await close({ bypass_sha256: createHash('sha256').update('token').digest('hex') })
    const shown = { ...preview, manifest_sha256: manifest_sha256 ?? '' }
    await edge.publish('site', files, { lock: edge.routes.find(host)?.route.lock ?? null, previews: [shown], version: ++version })
    await edge.publish('open', files, { version: ++version })
    edge.routes.setConnected(false, 'test')
  })
  afterEach(() => {
    vi.useRealTimers()
    edge.routes.setConnected(true)
  })

  test('visits pass for ten minutes after the last completed read, then nobody does', async () => {
    const cookie = withVisit()
    vi.setSystemTime(Date.now() + 10 * minute - 1000)
    expect([await status('/', cookie), await status('/')]).toEqual([200, 401])
    vi.setSystemTime(Date.now() + 2000)
    for (const options of [cookie, {}, { headers: html }, { headers: { 'x-plinth-bypass': 'token' } }]) {
      const answer = await edge.ask('/', options)
      expect([answer.status, answer.headers['cache-control'], answer.headers['retry-after']]).toEqual([503, 'no-store', '5'])
    }
    edge.routes.setConnected(true)
    expect(await status('/', cookie)).toBe(200)
  })

  test('nobody passes either when the clock was set back by more than that', async () => {
    vi.setSystemTime(Date.now() - 11 * minute)
    expect(await status('/', withVisit())).toBe(503)
  })

  test('open sites and links to previews stay', async () => {
    vi.setSystemTime(Date.now() + 24 * 60 * minute)
    expect(await status('/', { host: `open.${platformDomain}` })).toBe(200)
    expect(await status('/', { host: `${'a'.repeat(52)}.preview.test` })).toBe(200)
  })
})
