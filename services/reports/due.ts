import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { ReportState } from '../../infra/forges/reports.ts'
import { connections, type ReportingSite, takesReports } from './reports.ts'

/** `inactive`: the preview is closed. `replaced`: the site or preview shows another deploy. */
export type CommitState = ReportState | 'inactive' | 'replaced'
/** `removed`, `waiting_for_approval`, or the newest deploy and its state: `<deploy_id>:<ReportState>`. */
export type CommentKey = string

/** A first report about a deploy later than this is of no use. */
const newsPeriodMs = 86_400_000

/** The state of a deploy that the forge should have; null while it should have none, because the commit is final only when it is fetched. */
export const commitState = sql<CommitState | null>`
  case when deploys.status in ('queued', 'building') then case when deploys.source_sha256 is not null then 'pending' end
    when deploys.status = 'failed' then case when deploys.cancelled then 'cancelled' else 'failure' end
    when deploys.status = 'ready' and deploys.activate then 'pending'
    when git_previews.id is null then case when deploys.status = 'superseded' then 'replaced' else 'success' end
    when exists (
      select from deploys later where later.git_preview_id = git_previews.id and later.seq > deploys.seq
        and later.status in ('ready', 'active', 'superseded')
    ) then 'replaced'
    when git_previews.closed_at is not null then 'inactive'
    else 'success' end`

/** The state that the comment of a pull request should show; null when there should be none. */
export const commentKey = sql<CommentKey | null>`
  case when git_previews.closed_at is not null then case when git_previews.comment_id is not null then 'removed' end
    when not git_previews.approved then 'waiting_for_approval'
    else (
      select newest.id || ':' || case
        when newest.status in ('queued', 'building') then 'pending' when newest.cancelled then 'cancelled'
        when newest.status = 'failed' then 'failure' else 'success' end
      from deploys newest where newest.git_preview_id = git_previews.id order by newest.seq desc limit 1
    ) end`

/** Reports that may still change, which have an index; most rows are final. */
const isOpen = sql<boolean>`(git_reports.reported is null or git_reports.reported in ('pending', 'success'))`
/** Whether the site went back to an earlier deploy. */
const isBack = sql<boolean>`(git_reports.reported = 'replaced' and deploys.status = 'active')`

/** For a row of `git_reports` joined with its deploy and that deploy's preview. */
const isCommitDue = (now: Date) => sql<boolean>`
  ${commitState} is not null and git_reports.reported is distinct from ${commitState} and length(deploys.git ->> 'commit') >= 40
  and (git_reports.reported is not null or deploys.created_at > ${new Date(now.getTime() - newsPeriodMs)})`

const isCommentDue = sql<boolean>`
  git_previews.pull_request is not null and ${commentKey} is not null and git_previews.commented is distinct from ${commentKey}`

export const reportedDeploys = (db: Db) =>
  db
    .selectFrom('git_reports')
    .innerJoin('deploys', 'deploys.id', 'git_reports.deploy_id')
    .leftJoin('git_previews', 'git_previews.id', 'deploys.git_preview_id')

/** Lists the deploys of the site whose current state was not reported, newest first. */
export function listDueCommits(db: Db, siteId: string, { now, limit }: { readonly now: Date; readonly limit: number }) {
  return reportedDeploys(db)
    .select(['deploys.id', commitState.$notNull().as('state'), sql<string>`deploys.git ->> 'commit'`.as('commit')])
    .where('git_reports.site_id', '=', siteId)
    .where((eb) => eb.or([isOpen, isBack]))
    .where(isCommitDue(now))
    .orderBy('deploys.seq', 'desc')
    .limit(limit)
    .execute()
}

/** Lists the previews of the site whose comment is out of date, the latest push first. */
export function listDueComments(db: Db, siteId: string, limit: number) {
  return db
    .selectFrom('git_previews')
    .select(['id', commentKey.$notNull().as('state')])
    .select((eb) => eb.ref('pull_request').$notNull().as('pull_request'))
    .where('site_id', '=', siteId)
    .where(isCommentDue)
    .orderBy('updated_at', 'desc')
    .limit(limit)
    .execute()
}

/**
 * Lists sites after `afterId` with reports that have been due since `before`, by id. Of the comments, only those of the
 * previous day count.
 */
export async function listSitesToReport(
  db: Db,
  {
    now,
    before,
    limit,
    afterId,
  }: { readonly now: Date; readonly before: Date; readonly limit: number; readonly afterId: string | undefined },
): Promise<{ readonly sites: ReportingSite[]; readonly lastId: string | undefined }> {
  const since = new Date(before.getTime() - newsPeriodMs)
  const rows = await connections(db)
    .$if(afterId !== undefined, (query) => query.where('git_connections.site_id', '>', afterId ?? ''))
    .where((eb) =>
      eb.or([
        eb.exists(
          reportedDeploys(db)
            .select('git_reports.deploy_id')
            .where(sql<boolean>`git_reports.site_id = git_connections.site_id`)
            .where(
              sql<boolean>`greatest(deploys.created_at, deploys.started_at, deploys.finished_at, deploys.activated_at) < ${before}`,
            )
            .where(isOpen)
            .where(isCommitDue(now)),
        ),
        eb.exists(
          eb
            .selectFrom('git_previews')
            .select('git_previews.id')
            .whereRef('git_previews.site_id', '=', 'git_connections.site_id')
            .where(sql<boolean>`coalesce(git_previews.closed_at, git_previews.updated_at) between ${since} and ${before}`)
            .where(isCommentDue),
        ),
      ]),
    )
    .orderBy('git_connections.site_id')
    .limit(limit)
    .execute()
  return { sites: rows.filter(takesReports), lastId: rows.length < limit ? undefined : rows.at(-1)?.site_id }
}
