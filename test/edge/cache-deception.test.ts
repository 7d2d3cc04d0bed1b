import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// Check 81: what is not for everybody, or not for long, is kept by no shared cache, whatever its address ends with.

const soon = { timeout: 60_000 }
let w: World
let owner: TestProject
let site: any
let previewUrl: string
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project()
  site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('live')])
  const shown = await deployFiles(w, owner, site.id, [page('preview'), { path: 'style.css', content: 'p{}' }], false)
  previewUrl = (await w.call(`POST /api/v1/deploys/${shown.id}/preview`, { key: owner.key })).body.url
  await vi.waitUntil(async () => (await w.open(previewUrl)).status === 200, soon)
  await vi.waitUntil(async () => (await w.visit(site.subdomain)).status === 200, soon)
})
afterAll(() => w?.[Symbol.asyncDispose]())

const notShared = /(^|[ ,])(no-store|private)([ ,]|$)/
const suffixes = [
  '',
  'x.css',
  'index.html/x.css',
  'x.js?v=1',
  '%2fx.css',
  ';x.css',
  '.css',
  'style.css',
  'x.png',
  '_astro/x.1a2b3c4d.js',
]

test.each(suffixes)('check 81: a preview with %j after its address is kept by no shared cache', async (suffix) => {
  const { headers } = await w.open(`${previewUrl}${suffix}`)
  expect(headers['cache-control']).toMatch(notShared)
})

test.each(suffixes)('check 81: an address of the platform with %j after it is kept by no cache', async (suffix) => {
  const { status, headers } = await w.visit(site.subdomain, `/__svc/${suffix}`)
  expect([status, headers['cache-control']]).toEqual([expect.toBeOneOf([400, 404]), expect.stringMatching(notShared)])
})

describe('check 81: errors are kept by no cache', () => {
  test.each(['/missing.css', '/_astro/missing.1a2b3c4d.js', '/%00.css', '/%zz', '/a%2f..%2fb.css'])('%s', async (path) => {
    const { status, headers } = await w.visit(site.subdomain, path)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(headers['cache-control']).toMatch(notShared)
  })

  test('of a host that is not there', async () => {
    const { status, headers } = await w.visit('nobody-has-this-name', '/x.css')
    expect([status, headers['cache-control']]).toEqual([404, expect.stringMatching(notShared)])
  })

  test('of a suspended project and of a disabled site', async () => {
    const project = await w.project()
    const other = await makeSite(w, project)
    await deployFiles(w, project, other.id, [page('other'), { path: 'style.css', content: 'p{}' }])
    const policy = async () => {
      const { status, headers } = await w.visit(other.subdomain, '/style.css')
      return `${status} ${headers['cache-control']}`
    }
    await expect.poll(policy, soon).toMatch(/^200 /)
    await w.call(`POST /api/v1/sites/${other.id}/enabled`, { key: project.key, json: { enabled: false } })
    await expect.poll(policy, soon).toMatch(/^503 .*no-store/)
    await w.call(`POST /api/v1/sites/${other.id}/enabled`, { key: project.key, json: { enabled: true } })
    await expect.poll(policy, soon).toMatch(/^200 /)
    await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
    await expect.poll(policy, soon).toMatch(/^503 .*no-store/)
  })
})

test('check 81: no request header comes back in an answer that caches keep', async () => {
  const names = [
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-original-url',
    'x-rewrite-url',
    'x-http-method-override',
    'forwarded',
    'origin',
  ]
  const hostile = Object.fromEntries(names.map((name) => [name, 'evil.example']))
  const plain = await w.visit(site.subdomain, '/index.html')
  const asked = await w.visit(site.subdomain, '/index.html', hostile)
  const { date: _date, ...expected } = plain.headers
  const { date: _other, ...received } = asked.headers
  expect([asked.status, asked.body, received]).toEqual([plain.status, plain.body, expected])
})
