import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { Tx } from '../transact.ts'

/** Deletes the emails that a site has sent in reply, in small steps. May be repeated. */
export async function deleteRepliesOfSite(db: Db, siteId: string): Promise<void> {
  await deleteInSteps(db, 'mails', sql`kind = 'autoreply' and about = ${siteId}`)
}

/** Deletes what is left of the auto-reply of a site, under its lock. */
export async function deleteAutoreplyOfSite(tx: Tx, siteId: string): Promise<void> {
  await tx.deleteFrom('autoreplies').where('site_id', '=', siteId).execute()
  await tx.deleteFrom('mails').where('kind', '=', 'autoreply').where('about', '=', siteId).execute()
}
