import { type Selectable, sql } from 'kysely'
import { maxTopValues, otherValues } from '../../core/traffic.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'

export type CountedTop = Selectable<DB['traffic_tops']>

/**
 * Adds to the tops of days whose rows the transaction has locked, so that no other one adds to the same tops. A day and kind keeps the first
 * {@link maxTopValues} values; the hits of all others are added to one row. Once there is this row, no value is new enough to get a row.
 */
export async function upsertTops(tx: Db, tops: readonly CountedTop[]): Promise<void> {
  if (tops.length === 0) return
  const isOfKind = sql`t.site_id = one.site_id and t.day = one.day and t.kind = one.kind`
  await sql`
    with given as materialized (
      select * from unnest(
        ${tops.map((top) => top.site_id)}::uuid[], ${tops.map((top) => top.day)}::date[], ${tops.map((top) => top.kind)}::text[],
        ${tops.map((top) => top.value)}::text[], ${tops.map((top) => top.hits)}::bigint[], ${tops.map((top) => top.visitors)}::bigint[]
      ) as one (site_id, day, kind, value, hits, visitors)),
    ranked as materialized (
      select site_id, day, kind, value, row_number() over (partition by site_id, day, kind order by hits desc, value) as rank
      from given one
      where value <> ${otherValues} and not exists (select from traffic_tops t where ${isOfKind} and t.value = one.value)),
    rooms as materialized (
      select site_id, day, kind,
        case when exists (select from traffic_tops t where ${isOfKind} and t.value = ${otherValues}) then 0
        else ${maxTopValues}::int - (select count(*) from traffic_tops t where ${isOfKind}) end as room
      from (select distinct site_id, day, kind from ranked) one),
    folded as materialized (
      select site_id, day, kind, value from ranked join rooms using (site_id, day, kind) where rank > room),
    placed as (
      select site_id, day, kind, hits, case when folded.value is null then visitors else 0 end as visitors,
        case when folded.value is null then given.value else ${otherValues} end as value
      from given left join folded using (site_id, day, kind, value))
    insert into traffic_tops as total (site_id, day, kind, value, hits, visitors)
    select site_id, day, kind, value, sum(hits), sum(visitors) from placed
    group by site_id, day, kind, value order by site_id, day, kind, value
    on conflict (site_id, day, kind, value) do update
    set hits = total.hits + excluded.hits, visitors = total.visitors + excluded.visitors`.execute(tx)
}
