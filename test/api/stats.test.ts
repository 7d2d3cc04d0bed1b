import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { TopKind } from '../../core/traffic.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// What owners read. The rows are those that the traffic feed and the forms write.

let w: World
let owner: TestProject
let siteId: string
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())
// a plan has few sites
beforeEach(async () => {
  owner = await w.project('free')
  siteId = (await makeSite(w, owner)).id
})

const setClock = (instant: string) => w.advance(Date.parse(instant) - w.clock().getTime())
const get = (path: string, key = owner.key) => w.call(`GET /api/v1/sites/${siteId}/${path}`, { key })
const stats = async (query = '') => (await get(`stats${query}`)).body
const tops = async (query = '?from=2026-09-01&to=2026-09-30') => (await get(`stats/tops${query}`)).body

const nothing = {
  views: 0,
  visitors: 0,
  bytes: 0,
  human_views: 0,
  human_visitors: 0,
  human_bytes: 0,
  form_submissions: 0,
  publishes: 0,
}

const insertTraffic = (day: string, counts: object, site_id = siteId) =>
  w.db
    .insertInto('traffic_days')
    .values({ site_id, day, ...counts })
    .execute()
const insertActivity = (day: string, counts: object) =>
  w.db
    .insertInto('activity_days')
    .values({ site_id: siteId, day, ...counts })
    .execute()

type Top = readonly [kind: TopKind, value: string, hits: number, visitors?: number]
const insertTops = (day: string, rows: readonly Top[], site_id = siteId) =>
  w.db
    .insertInto('traffic_tops')
    .values(rows.map(([kind, value, hits, visitors = 1]) => ({ site_id, day, kind, value, hits, visitors })))
    .execute()

test('K01 K02 K03: the days of a period have what was counted and zeros otherwise; the summary has their sums', async () => {
  const counted = { views: 10, visitors: 4, bytes: 5_000_000_000, human_views: 7, human_visitors: 3, human_bytes: 4_000 }
  await insertTraffic('2026-09-01', counted)
  await insertTraffic('2026-09-03', { ...counted, views: 5 })
  await insertTraffic('2026-09-05', counted)
  await insertActivity('2026-09-02', { form_submissions: 2, publishes: 1 })
  await insertActivity('2026-09-03', { publishes: 3 })
  expect(await stats('?from=2026-09-01&to=2026-09-04')).toEqual({
    from: '2026-09-01',
    to: '2026-09-04',
    timezone: 'Europe/Moscow',
    days: [
      { date: '2026-09-01', ...nothing, ...counted },
      { date: '2026-09-02', ...nothing, form_submissions: 2, publishes: 1 },
      { date: '2026-09-03', ...nothing, ...counted, views: 5, publishes: 3 },
      { date: '2026-09-04', ...nothing },
    ],
    summary: {
      views: 15,
      visitors: 8,
      bytes: 10_000_000_000,
      human_views: 14,
      human_visitors: 6,
      human_bytes: 8000,
      form_submissions: 2,
      publishes: 4,
    },
  })
})

test.each([
  ['', 30],
  ['?days=1', 1],
  ['?days=365', 365],
])('K01: the period %j is of %i days and ends today', async (query, length) => {
  const body = await stats(query)
  expect([body.days.length, body.days[0].date, body.days.at(-1).date]).toEqual([length, body.from, body.to])
  expect(body.summary).toEqual(nothing)
})

test('K01: leap days and days to come are days like others', async () => {
  const { days } = await stats('?from=2028-02-28&to=2028-03-01')
  expect(days.map(({ date }: { date: string }) => date)).toEqual(['2028-02-28', '2028-02-29', '2028-03-01'])
  expect((await stats('?from=2028-01-01&to=2028-12-31')).days).toHaveLength(366)
})

test.each([
  ['2027-03-14T20:59:00Z', '2027-03-14'],
  ['2027-03-14T21:01:00Z', '2027-03-15'],
])('K07: at %s today is %s', async (instant, today) => {
  setClock(instant)
  expect([(await stats('?days=7')).to, (await tops('?days=7')).to]).toEqual([today, today])
})

test.each([
  ['?days=0', 422, 'days must be at least 1'],
  ['?days=366', 422, 'days must be at most 365'],
  ['?days=1.5', 422, 'days'],
  ['?days=week', 422, 'days'],
  ['?days=', 422, 'days'],
  ['?from=2027-02-29&to=2027-03-01', 422, 'from must be a date such as'],
  ['?from=01.09.2026&to=2026-09-02', 422, 'from must be a date such as'],
  ['?from=2026-09-01&to=2026-9-2', 422, 'to must be a date such as'],
  ['?from=2026-09-01T00:00:00Z&to=2026-09-02', 422, 'from must be a date such as'],
  ['?from=2026-09-01', 400, 'give both from and to'],
  ['?to=2026-09-01', 400, 'give both from and to'],
  ['?days=7&from=2026-09-01&to=2026-09-02', 400, 'give either days, or from and to'],
  ['?from=2026-09-02&to=2026-09-01', 400, 'from must not be later than to'],
  ['?from=2026-01-01&to=2027-01-02', 400, 'at most 365 days apart'],
  ['?from=0000-01-01&to=0000-01-02', 400, 'from must be 2000-01-01 or later'],
  ['?days=7&days=8', 422, 'days: give it once'],
])('K01 K04: the period %s is refused with %i', async (query, status, message) => {
  for (const path of ['stats', 'stats/tops']) {
    const answer = await get(path + query)
    expect([path, answer.status, answer.body.message]).toEqual([path, status, expect.stringContaining(message)])
  }
})

test('K04: the tops list each kind under its name, the most hits first', async () => {
  await insertTops('2026-09-01', [
    ['page', '/b', 7, 3],
    ['page', '/a', 7, 4],
    ['page', '/', 9, 8],
    ['source', '(direct)', 20, 15],
    ['download', '/guide.pdf', 6, 5],
    ['not_found', '/gone', 8, 2],
    ['device', 'mobile', 12, 9],
    ['bot_reason', 'ua_bot', 5, 1],
  ])
  expect(await tops()).toEqual({
    from: '2026-09-01',
    to: '2026-09-30',
    pages: [
      { value: '/', hits: 9, visitors: 8 },
      { value: '/a', hits: 7, visitors: 4 },
      { value: '/b', hits: 7, visitors: 3 },
    ],
    sources: [{ value: '(direct)', hits: 20, visitors: 15 }],
    downloads: [{ value: '/guide.pdf', hits: 6, visitors: 5 }],
    not_found: [{ value: '/gone', hits: 8, visitors: 2 }],
    devices: [{ value: 'mobile', hits: 12, visitors: 9 }],
    bot_reasons: [{ value: 'ua_bot', hits: 5, visitors: 1 }],
  })
})

test('K05: a row with 4 hits in the period is hidden, one with 5 is shown, on however many days they were', async () => {
  await insertTops('2026-09-01', [
    ['page', '/four', 3],
    ['page', '/five', 3],
  ])
  await insertTops('2026-09-02', [
    ['page', '/four', 1],
    ['page', '/five', 2],
  ])
  expect((await tops()).pages).toEqual([{ value: '/five', hits: 5, visitors: 2 }])
  expect((await tops('?from=2026-09-01&to=2026-09-01')).pages).toEqual([])
})

test('K04: at most 100 rows of a kind are listed, and what was counted together is none of them', async () => {
  const rows = Array.from({ length: 105 }, (_, index): Top => ['not_found', `/${index}`, 200 - index])
  await insertTops('2026-09-01', [...rows, ['not_found', '(other)', 100_000]])
  const { not_found } = await tops()
  expect([not_found.length, not_found[0].value, not_found.at(-1)]).toEqual([100, '/0', { value: '/99', hits: 101, visitors: 1 }])
})

test('A03: another project sees neither the numbers nor the site, and another site has its own', async () => {
  await insertTraffic('2026-09-01', { views: 10 })
  await insertTops('2026-09-01', [['page', '/', 9]])
  const stranger = await w.project('free')
  for (const path of ['stats', 'stats/tops', 'stats?format=csv']) expect((await get(path, stranger.key)).status).toBe(404)
  const { id } = await makeSite(w, stranger)
  const { body } = await w.call(`GET /api/v1/sites/${id}/stats?from=2026-09-01&to=2026-09-01`, { key: stranger.key })
  expect(body.summary).toEqual(nothing)
})

test('E38: the statistics are read with a readonly key, while the project is suspended, and of a site in the trash', async () => {
  const readonly = await w.key(owner, 'readonly')
  const url = `/operator/v1/projects/${owner.id}`
  await w.call(`DELETE /api/v1/sites/${siteId}`, { key: owner.key })
  await w.call(`PATCH ${url}`, { key: operatorToken, json: { suspended: true } })
  for (const path of ['stats', 'stats/tops', 'stats?format=csv']) {
    expect([path, (await get(path, readonly)).status]).toEqual([path, 200])
  }
})

test('E38: format=csv sends the days as CSV', async () => {
  await insertTraffic('2026-09-01', { views: 10, visitors: 4, bytes: 5_000_000_000, human_views: 7 })
  await insertActivity('2026-09-02', { form_submissions: 2, publishes: 1 })
  const { status, headers, body } = await get('stats?from=2026-09-01&to=2026-09-02&format=csv')
  expect([status, headers.get('content-type'), headers.get('content-disposition'), headers.get('plinth-ignored')]).toEqual([
    200,
    'text/csv; charset=utf-8',
    'attachment; filename="stats.csv"',
    null,
  ])
  expect(parse(body, { record_delimiter: '\r\n' })).toEqual([
    ['date', ...Object.keys(nothing)],
    ['2026-09-01', '10', '4', '5000000000', '7', '0', '0', '0', '0'],
    ['2026-09-02', '0', '0', '0', '0', '0', '0', '2', '1'],
  ])
  expect((await get('stats?from=2026-09-02&to=2026-09-01&format=csv')).status).toBe(400)
})

test.each([
  ['?format=json', 200, 'application/json; charset=utf-8'],
  ['?format=xml', 422, 'application/json; charset=utf-8'],
  ['?format=csv&format=csv', 422, 'application/json; charset=utf-8'],
])('E38: the format %s answers %i', async (query, status, type) => {
  const answer = await get(`stats${query}`)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([status, type])
})

test('J07: the tool answers as REST does, and knows no format', async () => {
  await insertTraffic('2026-09-01', { views: 10 })
  const period = { from: '2026-09-01', to: '2026-09-02' }
  const { structuredContent } = await w.tool('get_site_stats', { site_id: siteId, ...period, format: 'csv' }, owner.key)
  expect(structuredContent).toEqual(await stats('?from=2026-09-01&to=2026-09-02'))
  const refused = await w.tool('get_site_stats', { site_id: siteId, days: 7, ...period }, owner.key)
  expect([refused.isError, refused.structuredContent.status]).toEqual([true, 400])
})
