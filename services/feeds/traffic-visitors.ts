import { sql } from 'kysely'
import { otherValues } from '../../core/traffic.ts'
import { moscowDay } from '../../core/traffic-days.ts'
import type { Db } from '../../infra/db/database.ts'
import type { MergedDay, MergedTop } from './merge-traffic.ts'

/** After the end of a day its visitors are counted for this long, for segments that come late. Then their keys may be deleted. */
export const lateMs = 2 * 3_600_000

// A key takes about 100 bytes until its day is over. A visitor has one for the day, one as a human, and one for each page, source and so on.
/** Keys that a site may have stored of one day. Further visitors are not counted. */
const maxKeysOfSite = 2_000_000
/** Beyond this many, the visitors of single pages, sources and so on are not counted. */
const maxKeysWithTops = 1_000_000
/** The same for all sites together, by PostgreSQL's estimate: about 5 GB. */
const maxKeys = 50_000_000

/** A day with the keys that may be stored. */
interface LimitedDay {
  readonly day: MergedDay
  readonly visitors: readonly string[]
  readonly human_visitors: readonly string[]
  /** In the order of the day's tops. */
  readonly topVisitors: readonly (readonly string[])[]
}

/** A day with the number of its visitors that no segment had before. */
export interface CountedDay {
  readonly day: MergedDay
  readonly visitors: number
  readonly human_visitors: number
  readonly topVisitors: readonly number[]
  /** Rows that were added to traffic_seen. */
  readonly seenKeys: number
}

interface DayState {
  readonly day: MergedDay
  readonly seenKeys: number
}

/**
 * Chooses which keys are stored: none of a day that is over, none of a top value that has no row of its own and will get none, and no more than the
 * limits. Two edges that do this at the same time may exceed a limit by what one call has.
 */
export async function limitKeys(tx: Db, states: readonly DayState[], now: Date): Promise<LimitedDay[]> {
  const firstDay = moscowDay(now.getTime() - lateMs)
  const stored = await countKeys(tx)
  const folded = await findFolded(tx, states)
  return states.map(({ day, seenKeys }): LimitedDay => {
    const isOver = day.day < firstDay
    const ofDay = isOver ? 0 : Math.min(maxKeysOfSite - seenKeys, maxKeys - stored)
    const visitors = atMost(ofDay, day.visitors)
    const human_visitors = atMost(ofDay - visitors.length, day.human_visitors)
    let left = isOver || stored > maxKeys / 2 ? 0 : maxKeysWithTops - seenKeys - visitors.length - human_visitors.length
    const topVisitors = [...day.tops.values()].map((top) => {
      const keys = folded.has(top) ? [] : atMost(left, top.visitors)
      left -= keys.length
      return keys
    })
    return { day, visitors, human_visitors, topVisitors }
  })
}

const atMost = (limit: number, keys: ReadonlySet<string>): string[] =>
  keys.size <= limit ? [...keys] : [...keys].slice(0, Math.max(0, limit))

/** PostgreSQL's estimate of the stored keys. After a crash it may be too low until the table is analyzed. */
async function countKeys(tx: Db): Promise<number> {
  const { rows } = await sql<{ stored: number }>`
    select coalesce(pg_stat_get_live_tuples('traffic_seen'::regclass), 0) as stored`.execute(tx)
  return rows[0]?.stored ?? 0
}

/** The tops without a row of their own, of a day and kind that has a row for all others already. */
async function findFolded(tx: Db, states: readonly DayState[]): Promise<Set<MergedTop>> {
  const given = states.flatMap(({ day }) => [...day.tops.values()].map((top) => ({ day, top })))
  const { rows } = await sql<{ place: number }>`
    with given as materialized (
      select * from unnest(
        ${given.map(({ day }) => day.site_id)}::uuid[], ${given.map(({ day }) => day.day)}::date[],
        ${given.map(({ top }) => top.kind)}::text[], ${given.map(({ top }) => top.value)}::text[]
      ) with ordinality as one (site_id, day, kind, value, place)),
    full_kinds as materialized (
      select site_id, day, kind from (select distinct site_id, day, kind from given) one
      where exists (select from traffic_tops t
        where t.site_id = one.site_id and t.day = one.day and t.kind = one.kind and t.value = ${otherValues}))
    select place from given join full_kinds using (site_id, day, kind)
    where not exists (select from traffic_tops t
      where t.site_id = given.site_id and t.day = given.day and t.kind = given.kind and t.value = given.value)`.execute(tx)
  return new Set(rows.flatMap(({ place }) => given[place - 1]?.top ?? []))
}

/** Stores the keys and counts those that were not there yet. */
export async function countFresh(tx: Db, limited: readonly LimitedDay[]): Promise<CountedDay[]> {
  const lists = limited.flatMap(({ day: { day }, visitors, human_visitors, topVisitors }) =>
    [visitors, human_visitors, ...topVisitors].map((keys) => ({ day, keys })),
  )
  const fresh = await insertKeys(tx, lists)
  let next = 0
  return limited.map(({ day, topVisitors }) => {
    const [visitors = 0, human_visitors = 0, ...ofTops] = fresh.slice(next, next + 2 + topVisitors.length)
    next += 2 + topVisitors.length
    const seenKeys = ofTops.reduce((sum, count) => sum + count, visitors + human_visitors)
    return { day, visitors, human_visitors, topVisitors: ofTops, seenKeys }
  })
}

/** The number of new keys of each list. A key that is in two lists counts for the first. */
async function insertKeys(
  tx: Db,
  lists: readonly { readonly day: string; readonly keys: readonly string[] }[],
): Promise<number[]> {
  const counts = lists.map(() => 0)
  const keys = lists.flatMap((list) => list.keys)
  if (keys.length === 0) return counts
  const days = lists.flatMap((list) => list.keys.map(() => list.day))
  const numbers = lists.flatMap((list, n) => list.keys.map(() => n))
  const { rows } = await sql<{ list: number; fresh: number }>`
    with given as materialized (
      select day, decode(key, 'hex') as key, min(list) as list
      from unnest(${days}::date[], ${keys}::text[], ${numbers}::int[]) as one (day, key, list) group by day, key),
    fresh as (
      insert into traffic_seen (day, key) select day, key from given order by day, key on conflict do nothing returning day, key)
    select list, count(*)::int as fresh from fresh join given using (day, key) group by list`.execute(tx)
  for (const { list, fresh } of rows) counts[list] = fresh
  return counts
}
