import { afterAll, beforeAll, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { anybody } from '../../infra/crypto/visits.ts'
import { openCaddy } from './caddy-edge.ts'
import { type Ask, ask, lockOf, openTestEdge, platformDomain, sendRaw, visits } from './test-edge.ts'

// A closed site behind the real Caddy, over plain http.

const host = `site.${platformDomain}`
const until = new Date(Date.now() + 3_600_000)
const lock = lockOf()
const visit = visits.issue(
  { site_id: 'id-of-site', host, epoch: lock.epoch },
  { subject: anybody, generation: 0, consent: 0, until },
)

let stack: AsyncDisposableStack
let port = 0
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  const caddy = stack.use(await openCaddy())
  const edge = stack.use(await openTestEdge({ listen: { path: caddy.config.sockets.edge } }))
  const { sha256, size } = await edge.cas.put(Buffer.from('an image'))
  const looks = { title: null, description: null, logo_framed: false, logo_rounded: false, favicon_mode: 'site' } as const
  const brand = { ...looks, logo_sha256: sha256, logo_size: size, favicon_sha256: null, favicon_size: null }
  await edge.publish('site', { 'index.html': 'home' }, { lock: { ...lock, brand } })
  port = caddy.port
})
afterAll(() => stack.disposeAsync())

const open = async (headers: Ask['headers'] = {}, path = '/') => {
  const { status, body } = await ask(port, path, { headers })
  return [status, body.toString()]
}

test('L02: a visit opens the site, and nothing else does', async () => {
  expect(await open({ cookie: `svc_s=${visit}` })).toEqual([200, 'home'])
  expect(await open()).toEqual([401, expect.not.stringContaining('home')])
  expect(await open({ accept: 'text/html' })).toEqual([401, expect.stringContaining(gatePaths.password)])
})

test('L09: the image of the login page opens', async () => {
  expect(await open({}, `${gatePaths.brand}logo.webp?v=1`)).toEqual([200, 'an image'])
})

test('E36: a visitor cannot claim another scheme', async () => {
  for (const claimed of ['https', 'https, http']) {
    expect((await open({ cookie: `__Host-svc_s=${visit}`, 'x-forwarded-proto': claimed }))[0]).toBe(401)
    expect((await open({ cookie: `svc_s=${visit}`, 'x-forwarded-proto': claimed }))[0]).toBe(200)
  }
})

test('E36: cookies of several headers count as one list', async () => {
  const lines = ['GET / HTTP/1.1', `Host: ${host}`, 'Cookie: a=b', `Cookie: svc_s=1; svc_s=${visit}`, 'Connection: close', '', '']
  expect(await sendRaw(port, lines.join('\r\n'))).toMatch(/^HTTP\/1\.1 200 /)
})
