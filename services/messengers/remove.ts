import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { Tx } from '../transact.ts'

/** Deletes the subscribers of a site that lets nobody in any more, in small steps. May be repeated. */
export async function deleteSubscribersOfSite(db: Db, siteId: string): Promise<void> {
  await deleteInSteps(db, 'subscribers', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'messenger_logins', sql`site_id = ${siteId}`)
}

/** Deletes the subscribers that came since, under the lock of the site. */
export async function deleteLateSubscribersOfSite(tx: Tx, siteId: string): Promise<void> {
  for (const table of ['subscribers', 'messenger_logins'] as const)
    await tx.deleteFrom(table).where('site_id', '=', siteId).execute()
}
