import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deployFiles, makeSite, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type Visit, type World, world } from '../world.ts'

// What the api says reaches visitors: the whole way from a call to the edge.

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('start')
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** Waits until visitors get it; a test's time limit ends a wait that is in vain. */
async function becomes(subdomain: string, wanted: (visit: Visit) => boolean): Promise<Visit> {
  for (;;) {
    const visit = await w.visit(subdomain)
    if (wanted(visit)) return visit
    await pause(10)
  }
}

test('S07 D05: a site is served at its subdomain as soon as its deploy is active, and not before', async () => {
  const site = await makeSite(w, owner)
  expect((await w.visit(site.subdomain)).status).toBe(404)
  await deployFiles(w, owner, site.id, [page('first')])
  expect((await becomes(site.subdomain, (visit) => visit.status === 200)).body).toContain('first')
  await deployFiles(w, owner, site.id, [page('second')])
  await becomes(site.subdomain, (visit) => visit.body.includes('second'))
})

test('X03: a rollback is served', async () => {
  const site = await makeSite(w, owner)
  const one = await deployFiles(w, owner, site.id, [page('one')])
  await deployFiles(w, owner, site.id, [page('two')])
  await becomes(site.subdomain, (visit) => visit.body.includes('two'))
  await w.call(`POST /api/v1/deploys/${one.id}/activate`, { key: owner.key })
  await becomes(site.subdomain, (visit) => visit.body.includes('one'))
})

test('S13 V15: a disabled site answers with a temporarily-unavailable page until it is enabled', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('here')])
  const enable = (enabled: boolean) => w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: owner.key, json: { enabled } })
  await becomes(site.subdomain, (visit) => visit.status === 200)
  await enable(false)
  const closed = await becomes(site.subdomain, (visit) => visit.status === 503)
  expect(closed.headers).toMatchObject({ 'cache-control': 'no-store', 'retry-after': '3600' })
  expect(closed.body).not.toContain('here')
  await enable(true)
  await becomes(site.subdomain, (visit) => visit.body.includes('here'))
})

test('Z05: the sites of a suspended project answer 503 until it is resumed', async () => {
  const project = await w.project('start')
  const site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('here')])
  const suspend = (suspended: boolean) =>
    w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended } })
  await becomes(site.subdomain, (visit) => visit.status === 200)
  await suspend(true)
  await becomes(site.subdomain, (visit) => visit.status === 503)
  await suspend(false)
  await becomes(site.subdomain, (visit) => visit.status === 200)
})

test('D06 D07 V01 V17: bytes arrive as they were sent, with their type, compressed for those who want it', async () => {
  const site = await makeSite(w, owner)
  const style = 'body { color: red }\n'.repeat(100)
  const pixel = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
  const files = [
    page('x'),
    { path: 'a.css', content: style },
    { path: 'p.png', content: pixel.toString('base64'), encoding: 'base64' },
  ]
  await deployFiles(w, owner, site.id, files)
  await becomes(site.subdomain, (visit) => visit.status === 200)
  const plain = await w.visit(site.subdomain, '/a.css')
  expect([plain.body, plain.headers['content-type']]).toEqual([style, 'text/css; charset=utf-8'])
  const packed = await w.visit(site.subdomain, '/a.css', { 'accept-encoding': 'gzip' })
  expect([packed.headers['content-encoding'], Number(packed.headers['content-length']) < 200]).toEqual(['gzip', true])
  expect((await w.visit(site.subdomain, '/p.png')).headers['content-type']).toBe('image/png')
})

test('V12: a _headers file changes no cache header', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('x'), { path: '_headers', content: '/*\n  Cache-Control: max-age=1' }])
  const visit = await becomes(site.subdomain, ({ status }) => status === 200)
  expect(visit.headers['cache-control']).toBe('no-cache')
})

test('a name that nobody has is a 404 page of the platform', async () => {
  const visit = await w.visit(randomName())
  expect([visit.status, visit.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8'])
})
