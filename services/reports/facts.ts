import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { commentKey, commitState, reportedDeploys } from './due.ts'

/** The deploy with the facts for its report; undefined when it is gone, or the site has no connection with a token. */
export function findCommitReport(db: Db, deployId: string) {
  return reportedDeploys(db)
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .innerJoin('git_connections', 'git_connections.site_id', 'deploys.site_id')
    .leftJoin('preview_links', 'preview_links.git_preview_id', 'git_previews.id')
    .select(['deploys.id', 'deploys.site_id', 'deploys.status', 'deploys.activate', 'deploys.git', 'deploys.error'])
    .select(['deploys.created_at', 'deploys.finished_at', 'deploys.activated_at'])
    .select(['git_reports.reported', 'git_reports.deployment_id', commitState.as('state')])
    .select(['git_previews.id as preview_id', 'git_previews.ref', 'git_previews.branch'])
    .select(['preview_links.generation', 'preview_links.token_sha256'])
    .select(['sites.name as site_name', 'sites.subdomain'])
    .select(['git_connections.repo_url', 'git_connections.forge'])
    .select((eb) => eb.ref('git_connections.token_sealed').$notNull().as('token_sealed'))
    .select(
      // whether a later report was about another deploy of the same commit
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

/** The preview of a pull request with its newest deploy and the facts for its comment; undefined as above. */
export function findCommentReport(db: Db, previewId: string) {
  return db
    .selectFrom('git_previews')
    .innerJoin('sites', 'sites.id', 'git_previews.site_id')
    .innerJoin('git_connections', 'git_connections.site_id', 'git_previews.site_id')
    .leftJoin('preview_links', 'preview_links.git_preview_id', 'git_previews.id')
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
    .select(['preview_links.generation', 'preview_links.token_sha256', 'git_previews.comment_id', 'git_previews.commented'])
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
