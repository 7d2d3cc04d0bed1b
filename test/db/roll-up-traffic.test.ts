import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { otherValues, type SiteTraffic, type TrafficBatch } from '../../core/traffic.ts'
import { openKeyring } from '../../infra/crypto/seal.ts'
import { type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { rollUpTraffic } from '../../services/feeds/roll-up-traffic.ts'
import { applyBatches } from '../../services/feeds/traffic.ts'
import { knownSalts } from '../../services/feeds/visitor-salts.ts'
import { createDatabase, type TestDatabase } from '../database.ts'

const day = '2026-11-23'
/** At noon in Moscow. */
const noon = new Date('2026-11-23T09:00:00Z')
const dayMs = 86_400_000
const after = (ms: number) => new Date(Date.parse('2026-11-23T21:00:00Z') + ms)
const keyring = openKeyring(randomBytes(32))

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

let site: string
beforeEach(async () => {
  const { db } = opened
  await sql`truncate traffic_days, traffic_tops, traffic_seen, traffic_streams, visitor_salts`.execute(db)
  const project = { name: 'P', owner_email: 'owner@example.com', plan: 'pro' } as const
  const { id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const row = { project_id: id, name: 'S', subdomain: `s-${randomUUID()}` }
  site = (await db.insertInto('sites').values(row).returning('id').executeTakeFirstOrThrow()).id
})

const key = () => randomBytes(12).toString('hex')
const traffic = (of: Partial<SiteTraffic> = {}): SiteTraffic => ({
  site_id: site,
  day,
  views: 1,
  bytes: 10,
  human_views: 1,
  human_bytes: 10,
  visitors: [],
  human_visitors: [],
  tops: [],
  ...of,
})
const apply = (now: Date, ...sites: SiteTraffic[]) => {
  const batch: TrafficBatch = { at: now.getTime(), sites, live: [] }
  return applyBatches(opened.db, randomUUID(), 1, [batch], now)
}
const rollUp = (now: Date) => rollUpTraffic({ db: opened.db, keyring, clock: () => now })
/** Page 0 with 1 hit to page n - 1 with n hits. */
const pages = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ kind: 'page' as const, value: `/${n}`, hits: n + 1, visitors: [key()] }))
const tops = () =>
  opened.db.selectFrom('traffic_tops').selectAll().where('site_id', '=', site).orderBy('hits', 'desc').orderBy('value').execute()
const salts = async () =>
  (await opened.db.selectFrom('visitor_salts').select('day').orderBy('day').execute()).map((row) => row.day)

test('the salt of the next day is made 12 hours before, and that of a past day is deleted', async () => {
  const known = await knownSalts(opened.db, keyring, [day])
  await rollUp(new Date(after(-12 * 3_600_000 - 1)))
  expect(await salts()).toEqual([day])
  await rollUp(new Date(after(-12 * 3_600_000)))
  expect(await salts()).toEqual([day, '2026-11-24'])
  expect(await knownSalts(opened.db, keyring, [day])).toEqual(known)
  await rollUp(after(0))
  expect(await salts()).toEqual(['2026-11-24'])
})

test('K02: the salt of the running day is made by edges only, because they may know the one that PostgreSQL lost', async () => {
  await rollUp(noon)
  expect(await salts()).toEqual(['2026-11-24'])
})

test('K02: two hours after a day nothing is left from which its visitors could be found', async () => {
  const seen = [key(), key(), key()]
  const [visitors = [], human_visitors = [], page = []] = seen.map((one) => [one])
  await knownSalts(opened.db, keyring, [day])
  await apply(noon, traffic({ visitors, human_visitors, tops: [{ kind: 'page', value: '/', hits: 1, visitors: page }] }))
  await rollUp(after(3_600_000))
  await apply(after(3_600_000), traffic({ visitors: [...seen.slice(0, 1), key()] }))
  expect(await opened.db.selectFrom('traffic_days').select('visitors').execute()).toEqual([{ visitors: 2 }])
  await rollUp(after(2 * 3_600_000 + 600_001))
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public'`.execute(opened.db)
  const all = rows.map(({ name }) => sql`select ${name}::text || to_jsonb(one)::text as row from ${sql.table(name)} one`)
  const stored = (await sql<{ row: string }>`${sql.join(all, sql` union all `)}`.execute(opened.db)).rows.map(({ row }) => row)
  expect(stored.filter((row) => seen.some((one) => row.includes(one)))).toEqual([])
  expect(stored.filter((row) => row.startsWith('traffic_seen') || /^visitor_salts.*2026-11-23/.test(row))).toEqual([])
  expect(stored.filter((row) => row.startsWith('traffic_days'))).toHaveLength(1)
})

test('a past day keeps the hundred first values of each kind and the hits of all', async () => {
  await apply(noon, traffic({ tops: [...pages(250), { kind: 'source', value: 'example.com', hits: 1, visitors: [] }] }))
  await rollUp(after(3_600_000))
  expect(await tops()).toHaveLength(251)
  await rollUp(after(3 * 3_600_000))
  const cut = await tops()
  expect(cut).toHaveLength(102)
  expect(cut[0]).toMatchObject({ value: otherValues, hits: (150 * 151) / 2, visitors: 0 })
  expect(cut[1]).toMatchObject({ value: '/249', hits: 250, visitors: 1 })
  expect(cut.at(-1)).toMatchObject({ kind: 'source', hits: 1 })
  await rollUp(after(4 * 3_600_000))
  expect(await tops()).toEqual(cut)
  const [, ...late] = pages(120)
  await apply(after(5 * 3_600_000), traffic({ tops: [...late, { kind: 'device', value: 'phone', hits: 3, visitors: [] }] }))
  await rollUp(after(5 * 3_600_000))
  const again = await tops()
  expect(again).toHaveLength(103)
  expect(again.reduce((sum, { hits }) => sum + hits, 0)).toBe((250 * 251) / 2 + 1 + (120 * 121) / 2 - 1 + 3)
})

test('after five weeks a day keeps the thirty first values of each kind and the hits of all', async () => {
  await apply(noon, traffic({ tops: pages(250) }))
  await rollUp(new Date(noon.getTime() + 35 * dayMs))
  expect(await tops()).toHaveLength(101)
  await rollUp(new Date(noon.getTime() + 36 * dayMs))
  const cut = await tops()
  expect(cut).toHaveLength(31)
  expect(cut.at(-1)).toMatchObject({ value: '/220', hits: 221 })
  expect(cut.reduce((sum, { hits }) => sum + hits, 0)).toBe((250 * 251) / 2)
})

test('roll-ups that run beside each other, beside edges, and are repeated lose no hit', async () => {
  const batches = Array.from({ length: 12 }, (_, n) => traffic({ tops: pages(100 + n * 10), day: n % 2 ? day : '2026-11-22' }))
  const late = after(3 * 3_600_000)
  await Promise.all(batches.flatMap((one) => [apply(late, one), rollUp(late), rollUp(late)]))
  await rollUp(late)
  const all = await tops()
  expect(all).toHaveLength(202)
  const sent = batches.flatMap((one) => one.tops).reduce((sum, { hits }) => sum + hits, 0)
  expect(all.reduce((sum, { hits }) => sum + hits, 0)).toBe(sent)
})

test('days go after 400 days, with their tops, and watermarks after 31 days without use', async () => {
  await apply(noon, traffic({ tops: pages(3) }))
  await rollUp(new Date(noon.getTime() + 31 * dayMs))
  expect(await opened.db.selectFrom('traffic_streams').selectAll().execute()).toHaveLength(1)
  await rollUp(new Date(noon.getTime() + 31 * dayMs + 1))
  expect(await opened.db.selectFrom('traffic_streams').selectAll().execute()).toEqual([])
  await rollUp(new Date(noon.getTime() + 400 * dayMs))
  expect(await tops()).toHaveLength(3)
  await rollUp(new Date(noon.getTime() + 401 * dayMs))
  expect(await tops()).toEqual([])
  expect(await opened.db.selectFrom('traffic_days').selectAll().execute()).toEqual([])
})
