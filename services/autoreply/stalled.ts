import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'

export interface StalledReply {
  readonly submission_id: string
  readonly site_id: string
  readonly project_id: string
}

/** Lists replies that nothing has decided about, or that are not sent, since before the instant; in the order of their submissions. */
export async function listStalledReplies(
  db: Db,
  before: Date,
  { limit, afterId }: { readonly limit: number; readonly afterId: string | undefined },
): Promise<StalledReply[]> {
  const { rows } = await sql<StalledReply>`
    select submission_id, site_id, project_id from (
      select submission_id, site_id, project_id from due_autoreplies where created_at < ${before}
      union all
      select submission_id, about::uuid, project_id from mails
      where outcome is null and created_at < ${before} and submission_id is not null) stalled
    where ${afterId === undefined ? sql`true` : sql`submission_id > ${afterId}`}
    order by submission_id limit ${limit}`.execute(db)
  return rows
}
