import type { Db } from '../../infra/db/database.ts'

/** The hits that no statistics have, although edges that stored something within the last month have answered them. */
export async function readDroppedHits(db: Db): Promise<number> {
  const { dropped } = await db
    .selectFrom('traffic_streams')
    .select((eb) => eb.cast<number>(eb.fn.coalesce(eb.fn.sum('dropped_hits'), eb.lit(0)), 'bigint').as('dropped'))
    .executeTakeFirstOrThrow()
  return dropped
}
