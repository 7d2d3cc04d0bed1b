import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { moscowDay } from '../../core/traffic-days.ts'
import { type Answer, ok, type Platform, type Project, type Site, startPlatform } from '../hostile/platform.ts'

// `npm start`: what visitors open through Caddy is what the owner reads, a few seconds later.

let platform: Platform
let owner: Project
let site: Site
beforeAll(async () => {
  platform = await startPlatform()
  owner = await platform.project('pro')
}, 300_000)
afterAll(() => platform?.[Symbol.asyncDispose]())

const browser = (version: number, more = {}) => ({
  'user-agent': `Mozilla/5.0 (X11; Linux x86_64; rv:${version}.0) Gecko/20100101 Firefox/${version}.0`,
  'accept-language': 'en',
  ...more,
})
const program = { 'user-agent': 'curl/8.9.1' }

const open = (path: string, headers: Record<string, string>) => platform.call(`GET ${path}`, { host: site.host, headers })
/** A site that is served, by a request that counts nothing. */
async function servedSite(): Promise<Site> {
  const made = await platform.site(owner)
  await expect.poll(async () => (await platform.call('HEAD /', { host: made.host })).status).toBe(200)
  return made
}
const read = (path: string): Promise<Answer['body']> =>
  ok(platform.call(`GET /api/v1/sites/${site.id}/stats${path}`, { key: owner.readonlyKey }))

test('K01 K02 K03 K04 K05 K06 J07: visits, submissions and publishes are in the statistics', async () => {
  site = await servedSite()
  const answers = [
    ...(await Promise.all([0, 1, 2].map(() => open('/', browser(140, { referer: 'https://search.example/?q=x' }))))),
    ...(await Promise.all([0, 1].map(() => open('/?from=mail', browser(141, { referer: 'https://search.example/' }))))),
    await open('/', program),
    ...(await Promise.all([0, 1, 2, 3, 4].map(() => open('/gone.txt', browser(140))))),
    ...(await Promise.all([0, 1, 2, 3].map(() => open('/lost.txt', browser(140))))),
  ]
  expect(answers.map(({ status }) => status)).toEqual([...Array(6).fill(200), ...Array(9).fill(404)])
  for (const { headers } of answers) expect(headers['set-cookie']).toBeUndefined()
  for (const { body } of answers.slice(0, 6)) expect(body).toBe('<!doctype html><title>x</title>')
  const origin = `http://${site.host}`
  await ok(platform.call(`POST /f/${site.id}`, { json: { message: 'It stands.' }, headers: { origin } }))

  const sizes = answers.map(({ body }) => Buffer.byteLength(body))
  const all = sizes.reduce((sum, size) => sum + size, 0)
  const day = {
    views: 6,
    visitors: 3,
    bytes: all,
    human_views: 5,
    human_visitors: 2,
    human_bytes: all - (sizes[5] ?? 0),
    form_submissions: 1,
    publishes: 1,
  }
  const today = moscowDay(Date.now())
  await expect.poll(async () => (await read('?days=2')).summary).toEqual(day)
  const stats = await read('?days=2')
  expect([stats.to, stats.days[1]]).toEqual([today, { date: today, ...day }])
  expect(await read('/tops?days=2')).toEqual({
    from: stats.from,
    to: today,
    pages: [{ value: '/', hits: 6, visitors: 3 }],
    sources: [{ value: 'search.example', hits: 5, visitors: 2 }],
    downloads: [],
    not_found: [{ value: '/gone.txt', hits: 5, visitors: 1 }],
    devices: [{ value: 'desktop', hits: 5, visitors: 2 }],
    bot_reasons: [],
  })
  const params = { name: 'get_site_stats', arguments: { site_id: site.id, days: 2 } }
  const called = await ok(
    platform.call('POST /mcp', { key: owner.readonlyKey, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params } }),
  )
  expect(called.result.structuredContent).toEqual(stats)
})

test('E38: the live view shows visitors who come', async () => {
  site = await servedSite()
  const headers = { host: 'localhost', authorization: `Bearer ${owner.readonlyKey}` }
  const asked = request({ host: '127.0.0.1', port: platform.port, path: `/api/v1/sites/${site.id}/stats/live`, headers }).end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  let received = ''
  response.on('data', (chunk) => (received += chunk))
  response.on('error', () => undefined)
  await expect.poll(() => received).toBe('event: live\ndata: {"visitors":0,"paths":[]}\n\n')
  for (let n = 0; n < 5; n++) await open('/', browser(140))
  await expect.poll(() => received).toContain('data: {"visitors":1,"paths":[{"path":"/","hits":5}]}')
  asked.destroy()
})
