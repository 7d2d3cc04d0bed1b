import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { maxTopValues, otherValues, type SiteTraffic, type TopTraffic, type TrafficBatch } from '../../core/traffic.ts'
import { type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { applyBatches } from '../../services/feeds/traffic.ts'
import { createDatabase, type TestDatabase } from '../database.ts'

const now = new Date('2026-11-23T12:00:00Z')
const today = '2026-11-23'

let database: TestDatabase
let opened: OpenedDatabase
beforeAll(async () => {
  database = await createDatabase()
  opened = openDatabase(database.url)
})
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await database?.[Symbol.asyncDispose]()
})

async function makeSite(): Promise<string> {
  const project = { name: 'P', owner_email: 'owner@example.com', plan: 'pro' } as const
  const { id } = await opened.db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const site = { project_id: id, name: 'S', subdomain: `s-${randomUUID()}` }
  return (await opened.db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
}

const keys = (count: number) => Array.from({ length: count }, () => randomBytes(12).toString('hex'))
const traffic = (site_id: string, of: Partial<SiteTraffic> = {}): SiteTraffic => ({
  site_id,
  day: today,
  views: 1,
  bytes: 10,
  human_views: 1,
  human_bytes: 10,
  visitors: [],
  human_visitors: [],
  tops: [],
  ...of,
})
const batch = (...sites: SiteTraffic[]): TrafficBatch => ({ at: now.getTime(), sites, live: [] })
const top = (value: string, of: Partial<TopTraffic> = {}): TopTraffic => ({ kind: 'page', value, hits: 1, visitors: [], ...of })
const apply = (stream: string, first: number, ...batches: TrafficBatch[]) => applyBatches(opened.db, stream, first, batches, now)
const daysOf = (site_id: string) => opened.db.selectFrom('traffic_days').selectAll().where('site_id', '=', site_id).execute()
const topsOf = (site_id: string) =>
  opened.db
    .selectFrom('traffic_tops')
    .selectAll()
    .where('site_id', '=', site_id)
    .orderBy('hits', 'desc')
    .orderBy('value')
    .execute()

test('K02: a segment that is applied again, alone or with later ones, counts once', async () => {
  const [site, stream] = [await makeSite(), randomUUID()]
  const [one, two, three] = [1, 2, 4].map((views) => batch(traffic(site, { views, tops: [top('/', { hits: views })] })))
  if (!one || !two || !three) throw new Error('three segments')
  await apply(stream, 1, one, two)
  await apply(stream, 1, one, two)
  await apply(stream, 2, two, three)
  await Promise.all([apply(stream, 1, one, two, three), apply(stream, 3, three)])
  expect(await daysOf(site)).toEqual([expect.objectContaining({ day: today, views: 7, bytes: 30, human_views: 3 })])
  expect(await topsOf(site)).toEqual([{ site_id: site, day: today, kind: 'page', value: '/', hits: 7, visitors: 0 }])
})

test('K02: a visitor of two edges at the same time is counted once, for the site and for each page', async () => {
  const sites = [await makeSite(), await makeSite(), await makeSite()]
  const seen = sites.map(() => ({ visitors: keys(300), human_visitors: keys(200), ofPage: keys(100) }))
  const shuffled = <T>(list: T[]) => list.toSorted(() => Math.random() - 0.5)
  const edges = Array.from({ length: 4 }, () => randomUUID())
  for (let round = 1; round <= 5; round++) {
    await Promise.all(
      edges.map((edge) => {
        const all = sites.map((site, n) => {
          const { visitors = [], human_visitors = [], ofPage = [] } = seen[n] ?? {}
          const tops = [top('/', { visitors: shuffled(ofPage) })]
          return traffic(site, { visitors: shuffled(visitors), human_visitors: shuffled(human_visitors), tops })
        })
        return apply(edge, round, batch(...shuffled(all)))
      }),
    )
  }
  for (const site of sites) {
    expect(await daysOf(site)).toEqual([
      expect.objectContaining({ views: 20, visitors: 300, human_visitors: 200, seen_keys: 600 }),
    ])
    expect(await topsOf(site)).toEqual([expect.objectContaining({ hits: 20, visitors: 100 })])
  }
})

test('K04: any number of invented values takes a bounded number of rows, and no hit is lost', async () => {
  const site = await makeSite()
  const edges = [randomUUID(), randomUUID(), randomUUID()]
  const perBatch = 4000
  for (let round = 1; round <= 3; round++) {
    await Promise.all(
      edges.map((edge) => {
        const tops = Array.from({ length: perBatch }, () => top(`/${randomUUID()}`, { visitors: keys(1) }))
        return apply(edge, round, batch(traffic(site, { tops: [...tops, top('/', { hits: 7 })] })))
      }),
    )
  }
  const tops = await topsOf(site)
  expect(tops).toHaveLength(maxTopValues + 1)
  expect(tops[0]).toMatchObject({ value: otherValues, hits: 9 * perBatch - (maxTopValues - 1), visitors: 0 })
  expect(tops[1]).toMatchObject({ value: '/', hits: 9 * 7 })
  const [day] = await daysOf(site)
  // the first call of each edge may store keys of values that turn out to have no room
  expect(day?.seen_keys).toBeLessThanOrEqual(edges.length * perBatch)
}, 120_000)

test('texts that PostgreSQL cannot store, or stores alike, do not stop a stream', async () => {
  const site = await makeSite()
  const tops = ['/\ud800', '/\ud801', '/\0', '/', `/${'é'.repeat(400)}`, `/${'é'.repeat(500)}`].map((value) => top(value))
  await apply(randomUUID(), 1, batch(traffic(site, { tops })))
  expect((await topsOf(site)).map(({ value, hits }) => [value, hits])).toEqual([
    ['/', 2],
    [`/${'é'.repeat(255)}`, 2],
    ['/\ufffd', 2],
  ])
})

test('a site that is gone is skipped, and so is a day that is long ago or to come', async () => {
  const [site, stream] = [await makeSite(), randomUUID()]
  const days = ['2026-10-23', '2026-10-24', '2026-11-24', '2026-11-25']
  await apply(stream, 1, batch(traffic(randomUUID()), ...days.map((day) => traffic(site, { day }))))
  expect((await daysOf(site)).map(({ day }) => day).sort()).toEqual(['2026-10-24', '2026-11-24'])
})

test('a segment that comes two hours after its day counts views, but no visitors', async () => {
  const site = await makeSite()
  const late = traffic(site, { day: '2026-11-22', visitors: keys(3), tops: [top('/', { visitors: keys(2) })] })
  await applyBatches(opened.db, randomUUID(), 1, [batch(late)], new Date('2026-11-22T22:59:00Z'))
  await applyBatches(opened.db, randomUUID(), 1, [batch({ ...late, visitors: keys(3) })], new Date('2026-11-22T23:01:00Z'))
  expect(await daysOf(site)).toEqual([expect.objectContaining({ views: 2, visitors: 3, seen_keys: 5 })])
  expect(await topsOf(site)).toEqual([expect.objectContaining({ hits: 2, visitors: 2 })])
})

test('what no edge could have counted is refused, and nothing of it is stored', async () => {
  const [site, stream] = [await makeSite(), randomUUID()]
  const wrong: Partial<SiteTraffic>[] = [
    { views: -1 },
    { bytes: 0.5 },
    { bytes: Number.MAX_SAFE_INTEGER },
    { day: '2026-13-01' },
    { day: 'today' },
    { visitors: ['192.0.2.1'] },
    { tops: [top('/', { kind: 'x' as 'page' })] },
    { tops: [top('/', { hits: Number.NaN })] },
    { site_id: 'x' },
  ]
  for (const of of wrong) await expect(apply(stream, 1, batch(traffic(site), traffic(site, of)))).rejects.toThrow(RangeError)
  await expect(apply(stream, 1, ...Array.from({ length: 1025 }, () => batch()))).rejects.toThrow(RangeError)
  expect(await daysOf(site)).toEqual([])
  await apply(stream, 1, batch(traffic(site)))
  expect(await daysOf(site)).toHaveLength(1)
})

test('the live view has recent visitors and paths, whatever the number of edges', async () => {
  const site = await makeSite()
  const [visitor = ''] = keys(1)
  const live = [{ site_id: site, visitors: [visitor], paths: [{ path: '/', hits: 2 }] }]
  const at = now.getTime()
  const stale = { at: at - 300_000, sites: [], live }
  await Promise.all([randomUUID(), randomUUID()].map((edge) => apply(edge, 1, { at, sites: [], live }, stale)))
  const visitors = await opened.db.selectFrom('live_visitors').selectAll().where('site_id', '=', site).execute()
  expect(visitors).toEqual([{ site_id: site, visitor: Buffer.from(visitor, 'hex'), seen_at: now }])
  const paths = await opened.db.selectFrom('live_paths').select(['path', 'hits']).where('site_id', '=', site).execute()
  expect(paths).toEqual([{ path: '/', hits: 4 }])
  const later = new Date(at + 601_000)
  await applyBatches(opened.db, randomUUID(), 1, [{ at: later.getTime(), sites: [], live: [] }], later)
  expect(await opened.db.selectFrom('live_visitors').selectAll().execute()).toEqual([])
  expect(await opened.db.selectFrom('live_paths').selectAll().execute()).toEqual([])
})
