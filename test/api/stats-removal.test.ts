import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SiteTraffic, TopKind, TrafficBatch } from '../../core/traffic.ts'
import { moscowDay } from '../../core/traffic-days.ts'
import { type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { applyBatches } from '../../services/feeds/traffic.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// A site is removed for good while edges add what they counted of it, as they do all the time.

const rounds = Number(process.env['PLINTH_REMOVAL_ROUNDS'] ?? 15)
const segments = 5
const dayMs = 86_400_000
/** Each segment has some of them, so that it adds to rows that are there and inserts others in one statement. */
const days = Array.from({ length: 12 }, (_, n) => moscowDay(Date.now() + (1 - n) * dayMs))

let w: World
let owner: TestProject
let edges: OpenedDatabase[]
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  edges = Array.from({ length: 3 }, () => openDatabase(w.database.url))
})
afterAll(async () => {
  for (const edge of edges ?? []) await edge[Symbol.asyncDispose]()
  await w?.[Symbol.asyncDispose]()
})

const keys = (count: number) => Array.from({ length: count }, () => randomBytes(12).toString('hex'))
const top = (kind: TopKind, value: string) => ({ kind, value, hits: 1, visitors: keys(1) })
const traffic = (site_id: string, day: string): SiteTraffic => ({
  site_id,
  day,
  views: 1,
  bytes: 10,
  human_views: 1,
  human_bytes: 10,
  visitors: keys(2),
  human_visitors: keys(2),
  tops: [top('page', '/'), top('page', `/${randomUUID()}`), top('device', 'desktop')],
})
const batchOf = (siteIds: readonly string[]): TrafficBatch => ({
  at: Date.now(),
  sites: days.filter(() => Math.random() < 0.5).flatMap((day) => siteIds.map((id) => traffic(id, day))),
  live: siteIds.map((site_id) => ({ site_id, visitors: keys(2), paths: [{ path: '/', hits: 1 }] })),
})

/** Applies segments as a shipper does: what fails is tried again. @returns the views of each site, and what PostgreSQL refused */
async function ship({ db }: OpenedDatabase, siteIds: readonly string[]) {
  const [stream, refusals] = [randomUUID(), [] as string[]]
  let views = 0
  for (let number = 1; number <= segments; number++) {
    const batch = batchOf(siteIds)
    views += batch.sites.length / siteIds.length
    for (let isApplied = false; !isApplied; ) {
      try {
        await applyBatches(db, stream, number, [batch])
        isApplied = true
      } catch (error) {
        refusals.push((error as { code?: string }).code ?? String(error))
        if (refusals.length > 20) throw error
      }
    }
    await pause(Math.random() * 20)
  }
  return { views, refusals }
}

async function remove(site_id: string): Promise<void> {
  await pause(Math.random() * 60)
  const purge_at = new Date(Date.now() - 1000)
  await w.db.updateTable('sites').set({ deletion_scheduled_at: purge_at }).where('id', '=', site_id).execute()
  expect(await purgeSite(w, { site_id, purge_at }, () => undefined)).toBe('purged')
}

const tables = ['traffic_days', 'traffic_tops', 'live_visitors', 'live_paths', 'activity_days'] as const
const left = async (siteId: string) => {
  const counts = tables.map(
    async (table) =>
      [table, (await w.db.selectFrom(table).select('site_id').where('site_id', '=', siteId).execute()).length] as const,
  )
  return Object.fromEntries((await Promise.all(counts)).filter(([, count]) => count > 0))
}

test('K02: of a site that is removed while edges count it nothing stays, other sites lose nothing, and nobody waits in a circle', async () => {
  const refused = new Set<string>()
  for (let round = 0; round < rounds; round++) {
    const [gone, before, after] = [(await makeSite(w, owner)).id, (await makeSite(w, owner)).id, (await makeSite(w, owner)).id]
    const shipping = edges.map((edge) => ship(edge, [before, gone, after]))
    await remove(gone)
    const shipped = await Promise.all(shipping)
    for (const code of shipped.flatMap(({ refusals }) => refusals)) refused.add(code)
    expect(await left(gone)).toEqual({})
    const sent = shipped.reduce((sum, { views }) => sum + views, 0)
    for (const kept of [before, after]) {
      const rows = await w.db.selectFrom('traffic_days').select('views').where('site_id', '=', kept).execute()
      expect(rows.reduce((sum, { views }) => sum + views, 0)).toBe(sent)
    }
    await remove(before)
    await remove(after)
  }
  expect([...refused]).toEqual([])
}, 240_000)
