import { otherValues } from '../../core/traffic.ts'
import type { Db } from '../../infra/db/database.ts'
import { minShownHits } from './tops.ts'

const liveMs = 5 * 60_000
export const maxLivePaths = 20

export interface LiveStats {
  /** Visitors of the last five minutes. */
  readonly visitors: number
  /** Paths with the most hits in the minutes that began within the last five. */
  readonly paths: { readonly path: string; readonly hits: number }[]
}

export async function readLiveStats(db: Db, siteId: string, now: Date): Promise<LiveStats> {
  const since = new Date(now.getTime() - liveMs)
  const { visitors } = await db
    .selectFrom('live_visitors')
    .select((eb) => eb.fn.countAll<number>().as('visitors'))
    .where('site_id', '=', siteId)
    .where('seen_at', '>', since)
    .executeTakeFirstOrThrow()
  const paths = await db
    .selectFrom('live_paths')
    .select('path')
    .select((eb) => eb.cast<number>(eb.fn.sum('hits'), 'bigint').as('hits'))
    .where('site_id', '=', siteId)
    .where('minute', '>', since)
    .where('path', '<>', otherValues)
    .groupBy('path')
    .having((eb) => eb.fn.sum('hits'), '>=', minShownHits)
    .orderBy('hits', 'desc')
    .orderBy('path')
    .limit(maxLivePaths)
    .execute()
  return { visitors, paths }
}
