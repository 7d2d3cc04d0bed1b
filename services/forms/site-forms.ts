import { type Selectable, sql } from 'kysely'
import type { SubmissionStatus } from '../../core/forms.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'

/** Where the submissions of a site are counted. */
export interface CountedSite {
  readonly site_id: string
  readonly project_id: string
}

export type SubmissionCounts = Pick<Selectable<DB['site_forms']>, SubmissionStatus | 'hidden'>

/** Adds to the counters of a site, whose row stays locked until the transaction ends. Take it last, and those of several sites in the order of ids. */
export async function countOnSite(
  tx: Tx,
  { site_id, project_id }: CountedSite,
  { verified = 0, spam = 0, archive = 0, hidden = 0 }: Partial<SubmissionCounts>,
): Promise<void> {
  const add = () =>
    tx
      .updateTable('site_forms')
      .set((eb) => ({
        verified: eb('verified', '+', verified),
        spam: eb('spam', '+', spam),
        archive: eb('archive', '+', archive),
        hidden: eb('hidden', '+', hidden),
      }))
      .where('site_id', '=', site_id)
      .executeTakeFirst()
  if ((await add()).numUpdatedRows > 0n) return
  await tx
    .insertInto('site_forms')
    .values({ site_id, project_id })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  await add()
}

/** Counts the submissions of one status, or the hidden ones, of one site or of all sites of the project. */
export async function countSubmissions(
  db: Db,
  { project_id, site_id }: { readonly project_id: string; readonly site_id?: string | undefined },
  counter: keyof SubmissionCounts,
): Promise<number> {
  const { count } = await db
    .selectFrom('site_forms')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<number>(counter), sql<number>`0`).as('count'))
    .where('project_id', '=', project_id)
    .$if(site_id !== undefined, (query) => query.where('site_id', '=', site_id ?? ''))
    .executeTakeFirstOrThrow()
  return count
}
