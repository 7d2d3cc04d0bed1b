import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { Tx } from '../transact.ts'

/** Deletes the payments of a site that is about to be removed, in small steps. May be repeated. */
export async function deletePaymentsOfSite(db: Db, siteId: string): Promise<void> {
  await deleteInSteps(db, 'checkouts', sql`site_id = ${siteId}`)
}

/** Deletes the payments that were begun since, under the lock of the site. */
export async function deleteLastPaymentsOfSite(tx: Tx, siteId: string): Promise<void> {
  await tx.deleteFrom('checkouts').where('site_id', '=', siteId).execute()
}
