import { type RawBuilder, sql } from 'kysely'
import { otherValues } from '../../core/traffic.ts'
import { moscowDay, statsPeriodMs } from '../../core/traffic-days.ts'
import type { Keyring } from '../../infra/crypto/seal.ts'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import { deleteOldLive } from './live-traffic.ts'
import { maxAgeMs } from './traffic.ts'
import { lateMs } from './traffic-visitors.ts'
import { knownSalts } from './visitor-salts.ts'

const hourMs = 3_600_000
/** When the salt of a day is made before it begins, for edges that lose PostgreSQL before midnight. */
const saltAheadMs = 12 * hourMs
/** Transactions that still count visitors of the day before have ended by then. */
const keyPeriodMs = lateMs + 10 * 60_000
/** A watermark that has not moved for this long can go: its segments are too old to be counted twice. */
const streamPeriodMs = maxAgeMs + 24 * hourMs
/** How many values of one kind a past day keeps at first, and how many an old one, so that the tops of a year can be read at once. */
const pastValues = 100
const oldValues = 30
const oldMs = 35 * 24 * hourMs
/** Days of sites in one transaction. */
const daysAtOnce = 50

/** What was done, as numbers of rows. */
interface RollUp {
  /** Keys of visitors that were deleted. */
  readonly keys: number
  /** Days of sites that were rolled up. */
  readonly days: number
  /** Days of sites that were deleted because they are too old. */
  readonly old_days: number
}

/**
 * Makes the salt of tomorrow from 12 hours before, and deletes those of past days. Deletes the keys of visitors of days that are over,
 * cuts the tops of these days to the first hundred and later to the first thirty, and deletes days that are older than {@link statsPeriodMs}. All in small steps; may be
 * repeated, and run beside edges that add.
 */
export async function rollUpTraffic({
  db,
  keyring,
  clock,
}: {
  readonly db: Db
  readonly keyring: Keyring
  readonly clock: () => Date
}): Promise<RollUp> {
  const now = clock()
  const dayBefore = (ms: number) => moscowDay(now.getTime() - ms)
  await db.deleteFrom('visitor_salts').where('day', '<', dayBefore(0)).execute()
  // that of today, when PostgreSQL lost it, is known to the edges: they write it again, or make one
  const next = dayBefore(-saltAheadMs)
  if (next > dayBefore(0)) await knownSalts(db, keyring, [next])
  const overBefore = dayBefore(keyPeriodMs)
  const keys = await deleteInSteps(db, 'traffic_seen', sql`day < ${overBefore}`)
  await deleteOldLive(db, now)
  const cut = (before: string, from: number | null, to: number) =>
    repeat(() => db.transaction().execute((tx) => cutDays(tx, before, from, to)))
  const days = (await cut(overBefore, null, pastValues)) + (await cut(dayBefore(oldMs), pastValues, oldValues))
  const old_days = await repeat(() => db.transaction().execute((tx) => deleteOldDays(tx, dayBefore(statsPeriodMs))))
  await deleteInSteps(db, 'traffic_streams', sql`applied_at < ${new Date(now.getTime() - streamPeriodMs)}`, 'skip')
  return { keys, days, old_days }
}

/** Repeats a step until it finds less than it may take. Returns the sum. */
async function repeat(step: () => Promise<number>): Promise<number> {
  for (let sum = 0; ; ) {
    const done = await step()
    sum += done
    if (done < daysAtOnce) return sum
  }
}

/**
 * Cuts the tops of some days from one number of values to another; the hits of the other values go to one row. A segment that comes later has them
 * cut again.
 */
async function cutDays(tx: Db, before: string, from: number | null, to: number): Promise<number> {
  const due = await lockDays(tx, before, from === null ? sql<boolean>`kept_values is null` : sql<boolean>`kept_values = ${from}`)
  if (due.length === 0) return 0
  // a statement of its own, which sees what was added before the lock
  await sql`
    with ranked as (
      select t.site_id, t.day, t.kind, t.value,
        row_number() over (partition by t.site_id, t.day, t.kind order by t.hits desc, t.value) as rank
      from traffic_tops t join ${listed(due)} using (site_id, day) where t.value <> ${otherValues}),
    removed as (
      delete from traffic_tops t using ranked
      where t.site_id = ranked.site_id and t.day = ranked.day and t.kind = ranked.kind and t.value = ranked.value
        and ranked.rank > ${to}
      returning t.site_id, t.day, t.kind, t.hits),
    folded as (
      insert into traffic_tops as total (site_id, day, kind, value, hits, visitors)
      select site_id, day, kind, ${otherValues}, sum(hits), 0 from removed group by site_id, day, kind order by site_id, day, kind
      on conflict (site_id, day, kind, value) do update set hits = total.hits + excluded.hits)
    update traffic_days set kept_values = ${to} from ${listed(due)}
    where traffic_days.site_id = one.site_id and traffic_days.day = one.day`.execute(tx)
  return due.length
}

/** Deletes some days with their tops. */
async function deleteOldDays(tx: Db, before: string): Promise<number> {
  const due = await lockDays(tx, before)
  if (due.length === 0) return 0
  for (const table of ['traffic_tops', 'traffic_days'] as const)
    await sql`
      delete from ${sql.table(table)} t using ${listed(due)} where t.site_id = one.site_id and t.day = one.day`.execute(tx)
  return due.length
}

type SiteDay = { readonly site_id: string; readonly day: string }

/** Locks some days against edges that add to them. Those that are locked are left for the next time. */
const lockDays = (tx: Db, before: string, which: RawBuilder<boolean> = sql<boolean>`true`): Promise<SiteDay[]> =>
  tx
    .selectFrom('traffic_days')
    .select(['site_id', 'day'])
    .where(which)
    .where('day', '<', before)
    .limit(daysAtOnce)
    .forUpdate()
    .skipLocked()
    .execute()

const listed = (days: readonly SiteDay[]) => sql`
  unnest(${days.map((one) => one.site_id)}::uuid[], ${days.map((one) => one.day)}::date[]) as one (site_id, day)`
