import { expect, test } from 'vitest'
import { createKnownRequests } from '../../edge/known-requests.ts'
import { createOrigins } from '../../edge/origins.ts'
import { lockOf, openTestEdge, platformDomain, routeOf, sendRaw, storeFiles } from './test-edge.ts'

const host = `site.${platformDomain}`

test('a request that is repeated gets what the site has now', async () => {
  await using edge = await openTestEdge()
  const twice = async () => {
    const first = await edge.ask('/')
    const second = await edge.ask('/')
    expect([second.status, second.body.toString()]).toEqual([first.status, first.body.toString()])
    return `${second.status} ${second.body.toString()}`
  }
  await edge.publish('site', { 'index.html': 'one' })
  expect(await twice()).toBe('200 one')
  const two = await edge.publish('site', { 'index.html': 'two' }, { version: 2 })
  expect(await twice()).toBe('200 two')
  const changes = [
    [{ version: 3, lock: lockOf() }, 401],
    [{ version: 4 }, 200],
    [{ version: 5, suspended: true }, 503],
    [{ version: 6, enabled: false }, 503],
    [{ version: 7, trashed: true }, 404],
    [{ version: 8, manifest_sha256: null }, 404],
    [{ version: 9 }, 200],
  ] as const
  for (const [change, status] of changes) {
    edge.routes.apply([{ ...two, ...change }], [])
    expect(await twice()).toMatch(new RegExp(`^${status} `))
  }
  edge.routes.apply([], [two.site_id])
  expect(await twice()).toMatch(/^404 /)
})

test('a request that only looks like a known one is refused', async () => {
  await using edge = await openTestEdge()
  await edge.publish('site', { 'index.html': 'home' })
  expect((await edge.ask('/')).status).toBe(200)
  const lines = (...more: string[]) => `${['GET / HTTP/1.1', `Host: ${host}`, ...more, 'Connection: close'].join('\r\n')}\r\n\r\n`
  expect(await sendRaw(edge.port, lines())).toMatch(/^HTTP\/1.1 200 /)
  expect(await sendRaw(edge.port, lines('hOST: other.test'))).toMatch(/^HTTP\/1.1 400 /)
  expect((await edge.ask('/', { method: 'POST' })).status).toBe(405)
})

test('a custom domain redirects to https as soon as it has a certificate, also for known requests', async () => {
  await using edge = await openTestEdge()
  const domain = 'www.shop.test'
  const route = routeOf('site', await storeFiles(edge.cas, { 'index.html': 'home' }), { domains: [{ domain, primary: null }] })
  edge.routes.apply([route], [])
  let isSecured = false
  const origins = createOrigins({ platformDomain, baseUrl: 'https://platform.test', isSecured: () => isSecured })
  const known = createKnownRequests(edge.routes, origins)
  const found = edge.routes.find(domain)
  const request = { url: '/', headers: { 'x-forwarded-proto': 'http' } } as never
  const file = { path: 'index.html' } as never
  if (found) known.remember(request, domain, domain, found, file)
  expect(known.find(request, domain)?.file).toBe(file)
  isSecured = true
  expect(known.find(request, domain)).toBeUndefined()
})

test('a bounded number of requests is remembered', async () => {
  await using edge = await openTestEdge()
  await edge.publish('site', { 'index.html': 'home' })
  const known = createKnownRequests(edge.routes, createOrigins({ platformDomain, baseUrl: 'https://platform.test' }))
  const found = edge.routes.find(host)
  const request = (i: number) => ({ url: `/${i}`, headers: {} }) as never
  const file = { path: 'index.html' } as never
  if (found) for (let i = 0; i < 10_000; i++) known.remember(request(i), host, host, found, file)
  const kept = Array.from({ length: 10_000 }, (_, i) => known.find(request(i), host)).filter((one) => one !== undefined)
  expect(kept.length).toBeGreaterThan(0)
  expect(kept.length).toBeLessThanOrEqual(4096)
})
