import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { Tx } from '../transact.ts'

/**
 * What was counted of a site. The days come first: an edge that adds to a day that is gone finds the site gone too, so that it adds no tops
 * after this.
 */
const tables = ['traffic_days', 'activity_days', 'traffic_tops', 'live_visitors', 'live_paths'] as const

/** Deletes the statistics of a site that is being removed, in small steps. May be repeated. */
export async function deleteStatsOfSite(db: Db, siteId: string): Promise<void> {
  for (const table of tables) await deleteInSteps(db, table, sql`site_id = ${siteId}`)
}

/** Deletes what was counted since, under the lock of the site. */
export async function deleteLateStatsOfSite(tx: Tx, siteId: string): Promise<void> {
  for (const table of tables) await tx.deleteFrom(table).where('site_id', '=', siteId).execute()
}
