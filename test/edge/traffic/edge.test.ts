import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openTraffic } from '../../../edge/traffic/traffic.ts'
import { hashPreviewToken } from '../../../infra/crypto/preview-tokens.ts'
import { type Db, openDatabase } from '../../../infra/db/database.ts'
import type { Route } from '../../../services/feeds/routes.ts'
import { createDatabase } from '../../database.ts'
import { type Ask, lockOf, log, openTestEdge, platformDomain, storeFiles, type TestEdge } from '../test-edge.ts'
import { chrome } from './hits.ts'

const resources = new AsyncDisposableStack()
let db: Db
let edge: TestEdge
let nowMs = Date.now()
beforeAll(async () => {
  const database = resources.use(await createDatabase())
  db = resources.use(openDatabase(database.url)).db
  const dir = await mkdtemp(join(tmpdir(), 'plinth-traffic-'))
  resources.defer(() => rm(dir, { recursive: true, force: true }))
  const options = { dir, databaseUrl: database.url, secretKey: Buffer.alloc(32, 1), log, now: () => nowMs }
  const traffic = resources.use(openTraffic(options))
  edge = resources.use(await openTestEdge({ traffic }))
})
afterAll(() => resources.disposeAsync())

const page = `<!doctype html><title>t</title>${'x'.repeat(1000)}`
const large = Buffer.alloc(30_000_000, 'large ')
const files = { 'index.html': page, 'about.html': 'about', 'style.css': 'css', 'price.pdf': 'pdf', '404.html': 'missing' }
const browser = { 'user-agent': chrome, 'accept-language': 'ru', 'x-forwarded-for': '192.0.2.1' }

let serial = 0
/** A published site of a project. */
async function publish(more: Partial<Route> = {}, content: Parameters<TestEdge['publish']>[1] = files) {
  const owner = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const project = await db.insertInto('projects').values(owner).returning('id').executeTakeFirstOrThrow()
  const subdomain = `site-${serial++}`
  const site = { project_id: project.id, name: 's', subdomain }
  const { id: site_id } = await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
  await edge.publish(subdomain, content, { site_id, ...more })
  const host = `${subdomain}.${platformDomain}`
  return {
    site_id,
    host,
    ask: (path: string, options: Ask = {}) => edge.ask(path, { host, ...options, headers: { ...browser, ...options.headers } }),
    days: () => db.selectFrom('traffic_days').selectAll().where('site_id', '=', site_id).orderBy('day').execute(),
    async tops(kind: 'page' | 'source' | 'download' | 'not_found' | 'device' | 'bot_reason') {
      const of = db.selectFrom('traffic_tops').select(['value', 'hits', 'visitors']).where('site_id', '=', site_id)
      return await of.where('kind', '=', kind).orderBy('value').execute()
    },
  }
}

const until = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: 60_000, interval: 20 })

test('K02: views, visitors and bytes of a browser and of a program', async () => {
  const site = await publish()
  const html = Buffer.byteLength(page)
  await site.ask('/')
  await site.ask('/')
  await site.ask('/style.css')
  await site.ask('/', { headers: { 'x-forwarded-for': '192.0.2.2' } })
  await site.ask('/', { headers: { 'user-agent': 'curl/8.5.0' } })
  await site.ask('/', { method: 'HEAD' })
  await until(async () =>
    expect(await site.days()).toMatchObject([
      {
        views: 4,
        visitors: 3,
        bytes: 4 * html + 3,
        human_views: 3,
        human_visitors: 2,
        human_bytes: 3 * html + 3,
      },
    ]),
  )
})

test('K02: an unchanged page is a view without bytes', async () => {
  const site = await publish()
  const { headers } = await site.ask('/')
  const unchanged = await site.ask('/', { headers: { 'if-none-match': headers.etag ?? '' } })
  expect(unchanged.status).toBe(304)
  await until(async () => expect(await site.days()).toMatchObject([{ views: 2, bytes: Buffer.byteLength(page) }]))
})

test('K04: pages, sources, downloads, missing pages, devices and bot reasons', async () => {
  const site = await publish()
  await site.ask('/?utm=1', { headers: { referer: 'https://news.test/a' } })
  await site.ask('/about', { headers: { referer: `http://${site.host}/` } })
  await site.ask('/price.pdf')
  await site.ask('/price.pdf', { headers: { range: 'bytes=0-1' } })
  await site.ask('/price.pdf', { headers: { range: 'bytes=1-' } })
  await site.ask('/%D0%BD%D0%B5%D1%82')
  await site.ask('/', { headers: { 'user-agent': 'Googlebot/2.1' } })
  const visitors = 1
  await until(async () => expect(await site.days()).toMatchObject([{ views: 3 }]))
  await until(async () => expect(await site.tops('not_found')).toEqual([{ value: '/нет', hits: 1, visitors }]))
  expect(await site.tops('page')).toEqual([
    { value: '/', hits: 2, visitors: 2 },
    { value: '/about', hits: 1, visitors },
  ])
  expect(await site.tops('source')).toEqual([
    { value: '(direct)', hits: 2, visitors: 2 },
    { value: 'news.test', hits: 1, visitors },
  ])
  expect(await site.tops('download')).toEqual([{ value: '/price.pdf', hits: 2, visitors }])
  expect(await site.tops('device')).toEqual([
    { value: 'bot', hits: 1, visitors },
    { value: 'desktop', hits: 2, visitors },
  ])
  expect(await site.tops('bot_reason')).toEqual([{ value: 'ua_bot', hits: 1, visitors }])
})

test('K02: what is no view of a site is not counted', async () => {
  const closed = await publish({ lock: lockOf() })
  expect((await closed.ask('/', { headers: { accept: 'text/html' } })).status).toBe(401)
  const off = await publish({ enabled: false })
  expect((await off.ask('/')).status).toBe(503)
  const redirecting = await publish({}, { ...files, _redirects: '/old /about 301' })
  expect((await redirecting.ask('/old')).status).toBe(301)
  const empty = await publish({ manifest_sha256: null })
  expect((await empty.ask('/')).status).toBe(404)
  const last = await publish()
  await last.ask('/')
  await until(async () => expect(await last.days()).toHaveLength(1))
  for (const site of [closed, off, redirecting, empty]) expect(await site.days()).toEqual([])
})

test('K02: previews are not counted', async () => {
  const token = 'a'.repeat(52)
  const manifest_sha256 = await storeFiles(edge.cas, files)
  const token_sha256 = hashPreviewToken(token)
  const site = await publish({ previews: [{ token_sha256, manifest_sha256 }] as never })
  const preview = await edge.ask('/', { host: `${token}.preview.test`, headers: browser })
  expect(preview.status).toBe(200)
  await site.ask('/about')
  await until(async () => expect(await site.days()).toMatchObject([{ views: 1, bytes: 5 }]))
})

test('K02: a download that breaks off counts the bytes that were sent', async () => {
  const site = await publish({}, { 'large.zip': large })
  const outgoing = request({ port: edge.port, path: '/large.zip', headers: { ...browser, host: site.host }, agent: false }).end()
  const [response] = await once(outgoing, 'response')
  await once(response, 'data')
  response.destroy()
  await until(async () => expect(await site.days()).toMatchObject([{ views: 0 }]))
  const [day] = await site.days()
  expect(day?.bytes).toBeGreaterThan(0)
  expect(day?.bytes).toBeLessThan(large.length)
})

test('K06: no cookie is set, and the body is that of the file', async () => {
  const site = await publish()
  const { headers, body } = await site.ask('/')
  expect(headers['set-cookie']).toBeUndefined()
  expect(body.toString()).toBe(page)
})

test('K07: the day begins at midnight in Moscow', async () => {
  const site = await publish()
  const day = new Date().toISOString().slice(0, 10)
  try {
    nowMs = Date.parse(`${day}T20:59:00Z`) - 86_400_000
    await site.ask('/')
    nowMs = Date.parse(`${day}T21:01:00Z`) - 86_400_000
    await site.ask('/')
    await site.ask('/about')
  } finally {
    nowMs = Date.now()
  }
  const yesterday = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10)
  await until(async () =>
    expect((await site.days()).map((row) => [row.day, row.views])).toEqual([
      [yesterday, 1],
      [day, 2],
    ]),
  )
})
