import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import { waitForAppliers } from '../feeds/traffic.ts'
import type { Tx } from '../transact.ts'

/** What was counted of a site. */
const tables = ['traffic_days', 'activity_days', 'traffic_tops', 'live_visitors', 'live_paths'] as const

/** Deletes the statistics of a site whose removal has begun, in small steps; no edge adds to them any more. May be repeated. */
export async function deleteStatsOfSite(db: Db, siteId: string): Promise<void> {
  await waitForAppliers(db)
  for (const table of tables) await deleteInSteps(db, table, sql`site_id = ${siteId}`)
}

/** Deletes what was counted since, under the lock of the site. */
export async function deleteLateStatsOfSite(tx: Tx, siteId: string): Promise<void> {
  for (const table of tables) await tx.deleteFrom(table).where('site_id', '=', siteId).execute()
}
