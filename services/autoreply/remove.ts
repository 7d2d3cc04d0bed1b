import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

const rowsAtOnce = 1000

/** Deletes the emails that a site has sent in reply, in small steps. May be repeated. */
export async function deleteRepliesOfSite(db: Db, siteId: string): Promise<void> {
  for (let rows = rowsAtOnce; rows === rowsAtOnce; ) {
    const some = sql`select ctid from mails where kind = 'autoreply' and about = ${siteId} limit ${rowsAtOnce}`
    const { numAffectedRows } = await sql`delete from mails where ctid = any (array(${some}))`.execute(db)
    rows = Number(numAffectedRows)
  }
}

/** Deletes what is left of the auto-reply of a site, under its lock. */
export async function deleteAutoreplyOfSite(tx: Tx, siteId: string): Promise<void> {
  await tx.deleteFrom('autoreplies').where('site_id', '=', siteId).execute()
  await tx.deleteFrom('mails').where('kind', '=', 'autoreply').where('about', '=', siteId).execute()
}
