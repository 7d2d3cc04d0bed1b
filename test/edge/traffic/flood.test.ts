import { randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { maxTopValues, otherValues, topKinds } from '../../../core/traffic.ts'
import { hitFlags } from '../../../edge/traffic/hit.ts'
import { createRing, droppedHits, RingReader, RingWriter } from '../../../edge/traffic/ring.ts'
import { startThread } from '../../../edge/traffic/traffic.ts'
import { type Db, openDatabase } from '../../../infra/db/database.ts'
import { createDatabase } from '../../database.ts'
import { chrome, hitOf, iphone } from './hits.ts'

// Somebody invents a path, a referrer, a program and an address for every request of a site: PLINTH_FLOOD_HITS=1000000 makes it long.

const hits = Number(process.env['PLINTH_FLOOD_HITS'] ?? 30_000)
/** Fewer than the ring takes. */
const hitsAtOnce = 3000
const rounds = Math.ceil(hits / hitsAtOnce)
const MB = 1024 * 1024

const stack = new AsyncDisposableStack()
let db: Db
let peakHeap = 0
let flooded: string
let other: string
beforeAll(async () => {
  const database = stack.use(await createDatabase())
  db = stack.use(openDatabase(database.url)).db
  const dir = await mkdtemp(join(tmpdir(), 'plinth-flood-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  flooded = await makeSite('flooded')
  other = await makeSite('other')
  const ring = createRing()
  const thread = startThread({
    ring,
    dir,
    streamId: randomUUIDv7(),
    databaseUrl: database.url,
    secretKey: Buffer.alloc(32, 1),
    salts: new Map(),
  })
  const [writer, reader] = [new RingWriter(ring), new RingReader(ring)]
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < hitsAtOnce; n++) {
      writer.append(hitOf({ ...invented(round * hitsAtOnce + n), siteId: flooded }))
      if (n % 600 === 500) for (const hit of usual(round, n)) writer.append(hitOf({ ...hit, siteId: other, atMs: Date.now() }))
      writer.publish()
    }
    while (!reader.isEmpty) await pause(5)
    peakHeap = Math.max(peakHeap, (await thread.getHeapStatistics()).used_heap_size)
  }
  const exited = once(thread, 'exit')
  thread.postMessage('stop')
  await exited
  expect(droppedHits(ring)).toBe(0)
}, 1_200_000)
afterAll(() => stack.disposeAsync())

async function makeSite(subdomain: string): Promise<string> {
  const owner = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const project = await db.insertInto('projects').values(owner).returning('id').executeTakeFirstOrThrow()
  return (
    await db
      .insertInto('sites')
      .values({ project_id: project.id, name: 's', subdomain })
      .returning('id')
      .executeTakeFirstOrThrow()
  ).id
}

/** Three views for each missing page. */
const invented = (n: number) => ({
  target: `/${n}/${'x'.repeat(200)}`,
  referer: `https://r${n}.test/`,
  userAgent: `Mozilla/5.0 (Windows NT 10.0) invented/${n}`,
  address: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
  atMs: Date.now(),
  ...(n % 4 === 3 ? { status: 404, flags: hitFlags.acceptsLanguage } : {}),
})

/** Four visitors of another site. */
const usual = (round: number, n: number) =>
  [
    { target: '/', userAgent: chrome, referer: 'https://news.test/' },
    // a version that nobody had before
    { target: '/', userAgent: chrome.replaceAll('130', String(131 + round)) },
    { target: '/about', userAgent: iphone },
    { target: '/', userAgent: `Googlebot/2.${round}` },
  ].map((hit, visitor) => ({ ...hit, address: `198.51.${round}.${n}.${visitor}` }))

async function dayOf(siteId: string) {
  return await db.selectFrom('traffic_days').selectAll().where('site_id', '=', siteId).executeTakeFirstOrThrow()
}
const topsOf = (siteId: string) => db.selectFrom('traffic_tops').selectAll().where('site_id', '=', siteId).execute()
const hitsOf = async (siteId: string, kind: (typeof topKinds)[number]) =>
  (await topsOf(siteId)).filter((top) => top.kind === kind).reduce((sum, top) => sum + top.hits, 0)

const sent = rounds * hitsAtOnce
const missing = sent / 4

test('K02: the totals of a flooded site are exact', async () => {
  expect(await dayOf(flooded)).toMatchObject({ views: sent - missing, human_views: sent - missing, bytes: sent * 100 })
  for (const kind of ['page', 'source', 'device'] as const)
    expect([kind, await hitsOf(flooded, kind)]).toEqual([kind, sent - missing])
  expect(await hitsOf(flooded, 'not_found')).toBe(missing)
})

test('K04: a flooded site keeps a thousand values of each kind, and one row with the hits of all others', async () => {
  const tops = await topsOf(flooded)
  for (const kind of ['page', 'source', 'not_found'] as const) {
    const values = tops.filter((top) => top.kind === kind)
    expect([kind, values.length]).toEqual([kind, maxTopValues + 1])
    expect(values.find(({ value }) => value === otherValues)?.hits).toBeGreaterThan(0)
  }
  expect(tops.length).toBeLessThanOrEqual(topKinds.length * (maxTopValues + 1))
})

test('K04: the tops of another site have every hit under its own value', async () => {
  const each = rounds * (hitsAtOnce / 600)
  const tops = (await topsOf(other)).map(({ kind, value, hits }) => `${kind} ${value} ${hits}`)
  expect(tops.sort()).toEqual(
    [
      `bot_reason ua_bot ${each}`,
      `device bot ${each}`,
      `device desktop ${2 * each}`,
      `device mobile ${each}`,
      `page / ${3 * each}`,
      `page /about ${each}`,
      `source (direct) ${3 * each}`,
      `source news.test ${each}`,
    ].sort(),
  )
  expect(await dayOf(other)).toMatchObject({
    views: 4 * each,
    human_views: 3 * each,
    visitors: 4 * each,
    human_visitors: 3 * each,
  })
})

test('K04: what a flood takes of the thread and of PostgreSQL is bounded', async () => {
  expect(peakHeap).toBeLessThan(128 * MB)
  const sizes = Object.fromEntries(
    await Promise.all(
      (['traffic_days', 'traffic_tops', 'live_visitors', 'live_paths', 'traffic_seen'] as const).map(async (table) => {
        const { rows } = await sql<{ bytes: number }>`select pg_total_relation_size(${table}) as bytes`.execute(db)
        return [table, rows[0]?.bytes ?? 0] as const
      }),
    ),
  )
  const { seen_keys } = await dayOf(flooded)
  console.log(`${sent} hits: heap ${Math.round(peakHeap / MB)} MB, ${seen_keys} keys, ${JSON.stringify(sizes)}`)
  expect(sizes['traffic_tops']).toBeLessThan(16 * MB)
  expect(sizes['traffic_days']).toBeLessThan(MB)
  expect(seen_keys).toBeLessThanOrEqual(2_000_000)
  expect(sizes['traffic_seen']).toBeLessThan(200 * 2_000_000)
})
