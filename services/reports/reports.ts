import { sql } from 'kysely'
import type { Forge } from '../../core/git-events.ts'
import type { Db } from '../../infra/db/database.ts'
import { forgeAddress } from '../../infra/forges/address.ts'
import type { ReportState } from '../../infra/forges/reports.ts'
import { reportsSignal } from '../../workflows/contract/git.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'

/** What names the workflow that reports for a site. */
export interface ReportingSite {
  readonly site_id: string
  readonly site_name: string
  readonly project_id: string
}

/** Connections with a token; whether their forge takes reports is seen at their address. */
const connections = (db: Db) =>
  db
    .selectFrom('git_connections')
    .innerJoin('sites', 'sites.id', 'git_connections.site_id')
    .select(['sites.id as site_id', 'sites.name as site_name', 'sites.project_id', 'repo_url', 'forge'])
    .where('token_sealed', 'is not', null)

const takesReports = ({ repo_url, forge }: { readonly repo_url: string; readonly forge: Forge | null }) =>
  forgeAddress(repo_url, forge ?? undefined) !== undefined

/** Undefined when nothing can be told: the site is not connected, has no token, or its forge takes no reports. */
export async function findReportingSite(db: Db, siteId: string): Promise<ReportingSite | undefined> {
  const found = await connections(db).where('git_connections.site_id', '=', siteId).executeTakeFirst()
  return found && takesReports(found) ? found : undefined
}

/** Has the forge of a site told what is new, in the transaction of the change. */
export async function queueReports(tx: Tx, siteId: string): Promise<void> {
  const site = await findReportingSite(tx, siteId)
  if (site) await signalWorkflows(tx, [reportsSignal(site)])
}

/** From now on the forge is told what becomes of the deploy, if there is a token. May be repeated. */
export async function insertGitReport(tx: Tx, report: { readonly deploy_id: string; readonly site_id: string }): Promise<void> {
  const { deploy_id, site_id } = report
  await tx
    .insertInto('git_reports')
    .columns(['deploy_id', 'site_id'])
    .expression((eb) =>
      eb
        .selectFrom('git_connections')
        .select([sql<string>`${deploy_id}::uuid`.as('deploy_id'), 'site_id'])
        .where('site_id', '=', site_id)
        .where('token_sealed', 'is not', null),
    )
    .onConflict((conflict) => conflict.column('deploy_id').doNothing())
    .execute()
}

/** `inactive`: the preview is closed. `replaced`: the site or preview shows another deploy. */
export type CommitState = ReportState | 'inactive' | 'replaced'
/** `removed`, `waiting_for_approval`, or the newest deploy and its state: `<deploy_id>:<ReportState>`. */
export type CommentKey = string

/** A first word about a deploy that comes later than this is of no use. */
const newsPeriodMs = 86_400_000

/** What the forge should know of a deploy by now; null when it should know nothing yet: only what was fetched has its commit for good. */
const commitState = sql<CommitState | null>`
  case when deploys.status in ('queued', 'building') then case when deploys.source_sha256 is not null then 'pending' end
    when deploys.status = 'failed' then 'failure'
    when deploys.status = 'ready' and deploys.activate then 'pending'
    when git_previews.id is null then case when deploys.status = 'superseded' then 'replaced' else 'success' end
    when exists (
      select from deploys later where later.git_preview_id = git_previews.id and later.seq > deploys.seq
        and later.status in ('ready', 'active', 'superseded')
    ) then 'replaced'
    when git_previews.closed_at is not null then 'inactive'
    else 'success' end`

/** What the comment of a pull request should say by now; null when there should be none. */
const commentKey = sql<CommentKey | null>`
  case when git_previews.closed_at is not null then case when git_previews.comment_id is not null then 'removed' end
    when not git_previews.approved then 'waiting_for_approval'
    else (
      select newest.id || ':' || case
        when newest.status in ('queued', 'building') then 'pending' when newest.status = 'failed' then 'failure' else 'success' end
      from deploys newest where newest.git_preview_id = git_previews.id order by newest.seq desc limit 1
    ) end`

/** Most rows are settled for good; these are in an index. */
const isOpen = sql<boolean>`(git_reports.reported is null or git_reports.reported in ('pending', 'success'))`
/** The site went back to an earlier deploy. */
const isBack = sql<boolean>`(git_reports.reported = 'replaced' and deploys.status = 'active')`

/** Of a row of `git_reports` with its deploy and the preview of that. */
const isCommitDue = (now: Date) => sql<boolean>`
  ${commitState} is not null and git_reports.reported is distinct from ${commitState} and length(deploys.git ->> 'commit') >= 40
  and (git_reports.reported is not null or deploys.created_at > ${new Date(now.getTime() - newsPeriodMs)})`

const isCommentDue = sql<boolean>`
  git_previews.pull_request is not null and ${commentKey} is not null and git_previews.commented is distinct from ${commentKey}`

const reportedDeploys = (db: Db) =>
  db
    .selectFrom('git_reports')
    .innerJoin('deploys', 'deploys.id', 'git_reports.deploy_id')
    .leftJoin('git_previews', 'git_previews.id', 'deploys.git_preview_id')

/** Deploys of the site whose state the forge does not know, newest first. */
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

/** Previews of the site whose comment says something else than it should, the one that was pushed to last first. */
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

/** The deploy and all that its report tells; undefined when it is gone, or the site has no connection with a token. */
export function findCommitReport(db: Db, deployId: string) {
  return reportedDeploys(db)
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .innerJoin('git_connections', 'git_connections.site_id', 'deploys.site_id')
    .select(['deploys.id', 'deploys.site_id', 'deploys.status', 'deploys.activate', 'deploys.git', 'deploys.error'])
    .select(['deploys.created_at', 'deploys.finished_at', 'deploys.activated_at'])
    .select(['git_reports.reported', 'git_reports.deployment_id', commitState.as('state')])
    .select(['git_previews.id as preview_id', 'git_previews.ref', 'git_previews.branch'])
    .select(['git_previews.generation', 'git_previews.token_sha256'])
    .select(['sites.name as site_name', 'sites.subdomain'])
    .select(['git_connections.repo_url', 'git_connections.forge'])
    .select((eb) => eb.ref('git_connections.token_sealed').$notNull().as('token_sealed'))
    .select(
      // another deploy of the same commit, about which the forge was told later
      sql<boolean>`exists (
        select from git_reports newer join deploys later on later.id = newer.deploy_id
        where newer.site_id = git_reports.site_id and newer.reported is not null
          and later.seq > deploys.seq and later.git ->> 'commit' = deploys.git ->> 'commit'
      )`.as('is_outdated'),
    )
    .select(
      sql<boolean>`exists (
        select from git_connections sibling where sibling.project_id = git_connections.project_id
          and sibling.repo_url = git_connections.repo_url and sibling.site_id <> git_connections.site_id
      )`.as('has_siblings'),
    )
    .where('deploys.id', '=', deployId)
    .where('git_connections.token_sealed', 'is not', null)
    .executeTakeFirst()
}
export type CommitReportRow = NonNullable<Awaited<ReturnType<typeof findCommitReport>>>

/** The preview of a pull request with its newest deploy, and all that its comment tells; undefined as above. */
export function findCommentReport(db: Db, previewId: string) {
  return db
    .selectFrom('git_previews')
    .innerJoin('sites', 'sites.id', 'git_previews.site_id')
    .innerJoin('git_connections', 'git_connections.site_id', 'git_previews.site_id')
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('deploys')
          .select(['deploys.id', 'deploys.git', 'deploys.error'])
          .whereRef('deploys.git_preview_id', '=', 'git_previews.id')
          .orderBy('deploys.seq', 'desc')
          .limit(1)
          .as('newest'),
      (join) => join.onTrue(),
    )
    .select(['git_previews.id as preview_id', 'git_previews.site_id', 'git_previews.branch', 'git_previews.head_commit'])
    .select(['git_previews.generation', 'git_previews.token_sha256', 'git_previews.comment_id', 'git_previews.commented'])
    .select((eb) => [eb.ref('git_previews.pull_request').$notNull().as('pull_request'), commentKey.as('state')])
    .select(['newest.id as deploy_id', 'newest.git', 'newest.error', 'sites.name as site_name'])
    .select(['git_connections.repo_url', 'git_connections.forge'])
    .select((eb) => eb.ref('git_connections.token_sealed').$notNull().as('token_sealed'))
    .where('git_previews.id', '=', previewId)
    .where('git_previews.pull_request', 'is not', null)
    .where('git_connections.token_sealed', 'is not', null)
    .executeTakeFirst()
}
export type CommentReportRow = NonNullable<Awaited<ReturnType<typeof findCommentReport>>>

/** The forge knows this state of the deploy, or will never know it. */
export async function setReported(
  db: Db,
  deployId: string,
  sent: { readonly reported: string; readonly deployment_id?: string },
): Promise<void> {
  await db.updateTable('git_reports').set(sent).where('deploy_id', '=', deployId).execute()
}

/** The comment of the pull request says this, or never will. One of another pull request, which the preview has had before, does not count. */
export async function setCommented(
  db: Db,
  { id, pull_request }: { readonly id: string; readonly pull_request: number },
  sent: { readonly commented: CommentKey; readonly comment_id?: string },
): Promise<void> {
  await db.updateTable('git_previews').set(sent).where('id', '=', id).where('pull_request', '=', pull_request).execute()
}

/**
 * Sites after `afterId` with something to tell that nobody has told since `before`, in the order of their ids. Of the
 * comments only those of the day before.
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
