import { type Selectable, sql } from 'kysely'
import { otherValues, type TrafficBatch } from '../../core/traffic.ts'
import { moscowDay } from '../../core/traffic-days.ts'
import { type Db, databaseTime } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { addLive, deleteOldLive } from './live-traffic.ts'
import { type MergedDay, mergeDays } from './merge-traffic.ts'
import { type CountedTop, upsertTops } from './traffic-tops.ts'
import { type CountedDay, countFresh, limitKeys } from './traffic-visitors.ts'

/** Segments of one call. A shipper sends fewer. */
const maxBatches = 1024
const dayMs = 86_400_000
/** Segments that waited longer on the disk of an edge are not counted. */
export const maxAgeMs = 30 * dayMs
const minuteMs = 60_000
/** The advisory lock that is shared by all transactions that add segments. */
const applyingLock = 5_377_003

/**
 * Adds up segments of one edge in one transaction. Those that were applied before are skipped, so that it may be repeated. Sites that are gone, and
 * days that are more than 30 days ago or after tomorrow, are skipped. Visitors of a day that ended more than {@link lateMs} ago are not counted.
 * @param first the number of the first segment; the others are numbered in sequence
 * @param givenNow PostgreSQL's time when absent
 * @throws RangeError when no edge could have counted this; repeating it does not help
 */
export async function applyBatches(
  db: Db,
  streamId: string,
  first: number,
  batches: readonly TrafficBatch[],
  givenNow?: Date,
): Promise<void> {
  if (batches.length > maxBatches) throw new RangeError(`more than ${maxBatches} segments at once`)
  if (batches.length === 0) return
  const last = first + batches.length - 1
  const { before, now } = await db.transaction().execute(async (tx) => {
    // of an edge whose clock is ahead, nothing is deleted early
    const now = givenNow ?? (await databaseTime(tx))
    // a statement of its own: the next one sees what was committed before the lock was given
    await sql`select pg_advisory_xact_lock_shared(${applyingLock})`.execute(tx)
    const stream = await lockStream(tx, streamId, first - 1)
    const fresh = batches.slice(Math.max(0, stream.applied - first + 1))
    if (fresh.length === 0) return { before: now, now }
    await addDays(tx, mergeDays(fresh), now)
    await addLive(tx, fresh, now)
    const dropped_hits = Math.max(stream.dropped_hits, ...fresh.map((batch) => batch.dropped_hits ?? 0))
    await tx
      .updateTable('traffic_streams')
      .set({ applied: last, applied_at: now, dropped_hits })
      .where('stream_id', '=', streamId)
      .execute()
    return { before: stream.applied_at, now }
  })
  // about once a minute for each edge
  if (Math.floor(before.getTime() / minuteMs) !== Math.floor(now.getTime() / minuteMs)) await deleteOldLive(db, now)
}

/**
 * Waits for the transactions that add segments now. Those that begin later see what was committed before: they add nothing to a site whose removal
 * has begun.
 */
export async function waitForAppliers(db: Db): Promise<void> {
  await sql`select pg_advisory_xact_lock(${applyingLock})`.execute(db)
}

/** The watermark of a stream. It stays locked until the transaction ends, also when the stream is new. */
async function lockStream(tx: Db, stream_id: string, applied: number): Promise<Selectable<DB['traffic_streams']>> {
  return await tx
    .insertInto('traffic_streams')
    .values({ stream_id, applied, applied_at: new Date(0) })
    .onConflict((on) => on.column('stream_id').doUpdateSet((eb) => ({ applied: eb.ref('traffic_streams.applied') })))
    .returningAll()
    .executeTakeFirstOrThrow()
}

/**
 * Adds to the rows of the days. The statements are the same few for any number of sites. Rows are locked in one order: the keys that were seen, the
 * days, their tops; so two edges never wait for each other in a circle.
 */
async function addDays(tx: Db, merged: readonly MergedDay[], now: Date): Promise<void> {
  const [earliest, latest] = [moscowDay(now.getTime() - maxAgeMs), moscowDay(now.getTime() + dayMs)]
  const states = await readStates(
    tx,
    merged.filter(({ day }) => day >= earliest && day <= latest),
  )
  if (states.length === 0) return
  const limited = await limitKeys(tx, states, now)
  const counted = await countFresh(tx, limited)
  await upsertDays(tx, counted)
  await upsertTops(tx, counted.flatMap(topsOf))
}

/** The days whose sites exist and are not being removed, with the number of keys that each has stored. */
async function readStates(tx: Db, days: readonly MergedDay[]) {
  const byId = new Map(days.map((day) => [`${day.site_id} ${day.day}`, day]))
  const { rows } = await sql<{ site_id: string; day: string; seen_keys: number }>`
    select one.site_id, one.day, coalesce(traffic_days.seen_keys, 0) as seen_keys
    from unnest(${days.map((day) => day.site_id)}::uuid[], ${days.map((day) => day.day)}::date[]) as one (site_id, day)
    join sites on sites.id = one.site_id and not sites.purging
    left join traffic_days on traffic_days.site_id = one.site_id and traffic_days.day = one.day`.execute(tx)
  return rows.flatMap(({ site_id, day, seen_keys }) => {
    const found = byId.get(`${site_id} ${day}`)
    return found ? [{ day: found, seenKeys: seen_keys }] : []
  })
}

async function upsertDays(tx: Db, counted: readonly CountedDay[]): Promise<void> {
  const days = counted.map(({ day }) => day)
  const column = (select: (one: CountedDay) => number) => sql`${counted.map(select)}::bigint[]`
  await sql`
    insert into traffic_days as total (site_id, day, views, visitors, bytes, human_views, human_visitors, human_bytes, seen_keys)
    select * from unnest(${days.map((day) => day.site_id)}::uuid[], ${days.map((day) => day.day)}::date[],
      ${column(({ day }) => day.views)}, ${column((one) => one.visitors)}, ${column(({ day }) => day.bytes)},
      ${column(({ day }) => day.human_views)}, ${column((one) => one.human_visitors)}, ${column(({ day }) => day.human_bytes)},
      ${column((one) => one.seenKeys)}) as one (site_id, day)
    order by site_id, day
    on conflict (site_id, day) do update set
      views = total.views + excluded.views, visitors = total.visitors + excluded.visitors, bytes = total.bytes + excluded.bytes,
      human_views = total.human_views + excluded.human_views, human_visitors = total.human_visitors + excluded.human_visitors,
      human_bytes = total.human_bytes + excluded.human_bytes, seen_keys = total.seen_keys + excluded.seen_keys,
      kept_values = null`.execute(tx)
}

const topsOf = ({ day: { site_id, day, tops }, topVisitors }: CountedDay): CountedTop[] =>
  [...tops.values()].map(({ kind, value, hits }, n) => {
    const visitors = value === otherValues ? 0 : (topVisitors[n] ?? 0)
    return { site_id, day, kind, value, hits, visitors }
  })
