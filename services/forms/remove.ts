import { sql } from 'kysely'
import { spamPeriodMs } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps, rowsAtOnce } from '../../infra/db/delete-in-steps.ts'
import type { Tx } from '../transact.ts'

/** Deletes the submissions of a site that takes no more, in small steps. May be repeated. */
export async function deleteSubmissionsOfSite(db: Db, siteId: string): Promise<void> {
  await deleteInSteps(db, 'form_submissions', sql`site_id = ${siteId}`)
}

/** Deletes what is left of the forms of a site, under its lock. */
export async function deleteFormsOfSite(tx: Tx, siteId: string): Promise<void> {
  await tx.deleteFrom('form_submissions').where('site_id', '=', siteId).execute()
  await tx.deleteFrom('site_forms').where('site_id', '=', siteId).execute()
}

/** Deletes spam that is older than it is kept, in small steps. May be repeated. Returns the number of submissions. */
export async function deleteOldSpam(db: Db, now: Date): Promise<number> {
  const before = new Date(now.getTime() - spamPeriodMs)
  let deleted = 0
  for (;;) {
    const oldest = await db
      .selectFrom('form_submissions')
      .select('site_id')
      .where('status', '=', 'spam')
      .where('created_at', '<', before)
      .orderBy('created_at')
      .limit(1)
      .executeTakeFirst()
    if (!oldest) return deleted
    deleted += await deleteSome(db, oldest.site_id, before)
  }
}

/** One site at a time, so that the transaction holds the lock of one counter only. */
async function deleteSome(db: Db, siteId: string, before: Date): Promise<number> {
  const { rows } = await sql<{ deleted: number }>`
    with gone as (
      delete from form_submissions where ctid = any (array(
        select ctid from form_submissions
        where site_id = ${siteId} and status = 'spam' and created_at < ${before} limit ${rowsAtOnce} for update))
      returning id)
    update site_forms set spam = spam - (select count(*) from gone) where site_id = ${siteId}
    returning (select count(*) from gone) as deleted`.execute(db)
  return rows[0]?.deleted ?? 0
}
