import { sql } from 'kysely'
import type { LiveTraffic, TrafficBatch } from '../../core/traffic.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import { seenKey, storedText } from './merge-traffic.ts'

/** The period that a live view shows. */
const shownMs = 5 * 60_000
const keptMs = 10 * 60_000
// What one call may add. Visitors can invent any number of both, and the live view is an estimate.
const maxVisitorsOfSite = 200
const maxPathsOfSite = 50
const maxSites = 2000

interface Live {
  readonly visitors: Map<string, number>
  readonly paths: Map<string, number>
}

/** Adds to the live views of sites what is recent enough to be shown. */
export async function addLive(tx: Db, batches: readonly TrafficBatch[], now: Date): Promise<void> {
  const sites = mergeLive(batches.filter(({ at }) => Number.isFinite(at) && Math.abs(now.getTime() - at) < shownMs))
  const visitors = [...sites].flatMap(([site_id, live]) =>
    [...live.visitors].slice(0, maxVisitorsOfSite).map(([visitor, at]) => ({ site_id, visitor, at })),
  )
  const paths = [...sites].flatMap(([site_id, live]) => busiest(live.paths).map((path) => ({ site_id, ...path })))
  if (visitors.length > 0)
    await sql`
      insert into live_visitors (site_id, visitor, seen_at)
      select site_id, decode(visitor, 'hex'), to_timestamp(at / 1000.0)
      from unnest(${visitors.map((one) => one.site_id)}::uuid[], ${visitors.map((one) => one.visitor)}::text[],
        ${visitors.map((one) => one.at)}::float8[]) as one (site_id, visitor, at)
      join sites on sites.id = one.site_id and not sites.purging
      order by site_id, visitor
      on conflict (site_id, visitor) do update set seen_at = greatest(live_visitors.seen_at, excluded.seen_at)`.execute(tx)
  if (paths.length > 0)
    await sql`
      insert into live_paths (site_id, minute, path, hits)
      select site_id, date_trunc('minute', ${now}::timestamptz), path, hits
      from unnest(${paths.map((one) => one.site_id)}::uuid[], ${paths.map((one) => one.path)}::text[],
        ${paths.map((one) => one.hits)}::bigint[]) as one (site_id, path, hits)
      join sites on sites.id = one.site_id and not sites.purging
      order by site_id, path
      on conflict (site_id, minute, path) do update set hits = live_paths.hits + excluded.hits`.execute(tx)
}

function mergeLive(batches: readonly TrafficBatch[]): Map<string, Live> {
  const sites = new Map<string, Live>()
  for (const { at, live } of batches)
    for (const one of live) {
      if (!isUuid(one.site_id)) throw new RangeError('a segment names no site')
      const known = sites.get(one.site_id)
      if (!known && sites.size >= maxSites) continue
      const site = known ?? { visitors: new Map(), paths: new Map() }
      sites.set(one.site_id, site)
      mergeSite(site, one, at)
    }
  return sites
}

function mergeSite({ visitors, paths }: Live, site: LiveTraffic, at: number): void {
  for (const visitor of site.visitors) {
    if (seenKey.test(visitor)) visitors.set(visitor, Math.max(at, visitors.get(visitor) ?? 0))
  }
  for (const { path, hits } of site.paths) {
    const stored = storedText(path)
    if (Number.isSafeInteger(hits) && hits > 0) paths.set(stored, hits + (paths.get(stored) ?? 0))
  }
}

const busiest = (paths: ReadonlyMap<string, number>) =>
  [...paths]
    .map(([path, hits]) => ({ path, hits }))
    .sort((a, b) => b.hits - a.hits)
    .slice(0, maxPathsOfSite)

/** Deletes what no live view shows any more. May be repeated. */
export async function deleteOldLive(db: Db, now: Date): Promise<void> {
  const before = new Date(now.getTime() - keptMs)
  await deleteInSteps(db, 'live_visitors', sql`seen_at < ${before}`, 'skip')
  await deleteInSteps(db, 'live_paths', sql`minute < ${before}`, 'skip')
}
