import { sql } from 'kysely'
import type { Period } from '../../core/stats-period.ts'
import { otherValues, type TopKind, topKinds } from '../../core/traffic.ts'
import type { Db } from '../../infra/db/database.ts'

export const maxTopRows = 100
/** Values with fewer hits are not shown: they could point to single visitors. */
export const minShownHits = 5

export interface TopRow {
  readonly value: string
  readonly hits: number
  readonly visitors: number
}

/** The first values of each kind by their hits in the whole period. What was counted together, beyond the values that are kept, is no value. */
export async function readTops(db: Db, siteId: string, { from, to }: Period): Promise<ReadonlyMap<TopKind, readonly TopRow[]>> {
  // One kind after the other needs a third of the time that all of them in one group need. Sums of bigint are numeric, which takes almost twice as
  // long; those of float8 are as exact, because no count comes near to 2^53.
  const { rows } = await sql<TopRow & { readonly kind: TopKind }>`
    select kind, value, hits, visitors from unnest(${topKinds}::text[]) with ordinality as listed (kind, place), lateral (
      select value, sum(hits::float8)::bigint as hits, sum(visitors::float8)::bigint as visitors
      from traffic_tops t
      where site_id = ${siteId} and day between ${from} and ${to} and t.kind = listed.kind and value <> ${otherValues}
      group by value having sum(hits::float8) >= ${minShownHits}
      order by hits desc, value collate "C" limit ${maxTopRows}) as first
    order by place, hits desc, value collate "C"`.execute(db)
  const tops = new Map<TopKind, TopRow[]>()
  for (const { kind, ...row } of rows) tops.set(kind, [...(tops.get(kind) ?? []), row])
  return tops
}
