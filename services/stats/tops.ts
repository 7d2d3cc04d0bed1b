import { sql } from 'kysely'
import type { Period } from '../../core/stats-period.ts'
import { otherValues, type TopKind } from '../../core/traffic.ts'
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
  const { rows } = await sql<TopRow & { readonly kind: TopKind }>`
    select kind, value, hits, visitors from (
      select kind, value, sum(hits)::bigint as hits, sum(visitors)::bigint as visitors,
        row_number() over (partition by kind order by sum(hits) desc, value collate "C") as place
      from traffic_tops
      where site_id = ${siteId} and day between ${from} and ${to} and value <> ${otherValues}
      group by kind, value having sum(hits) >= ${minShownHits}) as ranked
    where place <= ${maxTopRows} order by kind, place`.execute(db)
  const tops = new Map<TopKind, TopRow[]>()
  for (const { kind, ...row } of rows) tops.set(kind, [...(tops.get(kind) ?? []), row])
  return tops
}
