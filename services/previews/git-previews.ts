import { type Selectable, sql } from 'kysely'
import type { DeployStatus } from '../../core/deploy.ts'
import { previewLinkPeriodMs } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Tx } from '../transact.ts'

/** The preview of a branch or pull request: one link, which shows its newest deploy. */
export type GitPreviewRow = Selectable<DB['git_previews']>

/** What a forge says of a branch or pull request. */
export interface OpenedPreview {
  readonly site_id: string
  readonly project_id: string
  /** As core `previewRef` names it. */
  readonly ref: string
  readonly fetch_ref: string
  readonly pull_request: number | null
  readonly branch: string
  readonly from_fork: boolean
  readonly head_commit: string | null
}

/**
 * Notes a push: makes the preview of the ref, or opens one that was closed. An approval stays, the number of a pull request stays while
 * the preview is open, and the comment of another pull request is forgotten.
 */
export async function openGitPreview(tx: Tx, opened: OpenedPreview, now: Date): Promise<GitPreviewRow> {
  const pullRequest = sql<number | null>`case when git_previews.closed_at is null
    then coalesce(git_previews.pull_request, excluded.pull_request)
    else coalesce(excluded.pull_request, git_previews.pull_request) end`
  const isSame = sql`git_previews.pull_request is not distinct from ${pullRequest}`
  const ofSame = (column: string) => sql<string | null>`case when ${isSame} then ${sql.ref(`git_previews.${column}`)} end`
  return await tx
    .insertInto('git_previews')
    .values({ ...opened, approved: !opened.from_fork, updated_at: now })
    .onConflict((conflict) =>
      conflict.columns(['site_id', 'ref']).doUpdateSet((eb) => ({
        fetch_ref: eb.ref('excluded.fetch_ref'),
        branch: eb.ref('excluded.branch'),
        pull_request: pullRequest,
        head_commit: eb.fn.coalesce('excluded.head_commit', 'git_previews.head_commit'),
        comment_id: ofSame('comment_id'),
        commented: ofSame('commented'),
        updated_at: now,
        closed_at: null,
      })),
    )
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Open or closed; undefined when there was never one. */
export function findGitPreview(db: Db, siteId: string, ref: string): Promise<GitPreviewRow | undefined> {
  return db.selectFrom('git_previews').selectAll().where('site_id', '=', siteId).where('ref', '=', ref).executeTakeFirst()
}

/** An open preview with its newest deploy, whatever became of that. */
export interface ListedGitPreview extends GitPreviewRow {
  readonly newest_deploy_id: string | null
  readonly newest_status: DeployStatus | null
  readonly newest_purged: boolean | null
  readonly newest_commit: string | null
}

const withNewest = (db: Db) =>
  db
    .selectFrom('git_previews')
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('deploys')
          .select(['deploys.id', 'deploys.status', 'deploys.artifacts_purged', 'deploys.git'])
          .whereRef('deploys.git_preview_id', '=', 'git_previews.id')
          .orderBy('deploys.seq', 'desc')
          .limit(1)
          .as('newest'),
      (join) => join.onTrue(),
    )
    .selectAll('git_previews')
    .select(['newest.id as newest_deploy_id', 'newest.status as newest_status', 'newest.artifacts_purged as newest_purged'])
    .select(sql<string | null>`newest.git ->> 'commit'`.as('newest_commit'))

/** The open previews of a site, the one that was pushed to last first. */
export function listGitPreviews(db: Db, projectId: string, siteId: string): Promise<ListedGitPreview[]> {
  return withNewest(db)
    .where('git_previews.project_id', '=', projectId)
    .where('git_previews.site_id', '=', siteId)
    .where('git_previews.closed_at', 'is', null)
    .orderBy('git_previews.updated_at', 'desc')
    .orderBy('git_previews.id', 'desc')
    .execute()
}

/** Undefined when the site has no such preview; it may be closed. */
export function findListedGitPreview(
  db: Db,
  projectId: string,
  { site_id, preview_id }: { readonly site_id: string; readonly preview_id: string },
): Promise<ListedGitPreview | undefined> {
  return withNewest(db)
    .where('git_previews.project_id', '=', projectId)
    .where('git_previews.site_id', '=', site_id)
    .where('git_previews.id', '=', preview_id)
    .executeTakeFirst()
}

/** The owner lets the pull request of a fork be built; its time begins anew. False when it is closed. */
export async function approveGitPreview(tx: Tx, id: string, now: Date): Promise<boolean> {
  const approved = await tx
    .updateTable('git_previews')
    .set({ approved: true, updated_at: now })
    .where('id', '=', id)
    .where('closed_at', 'is', null)
    .executeTakeFirst()
  return approved.numUpdatedRows > 0n
}

/**
 * The deploy is ready: the link of its preview shows it from now on. `overtaken`: a later deploy of the preview was ready before;
 * `closed`: the preview is closed, or its time is over. The caller holds the site's lock; the edge follows with the commit. May be repeated.
 * @param tokenHashOf the hash of the token of a preview's generation
 */
export async function showGitPreview(
  tx: Tx,
  deploy: Pick<Selectable<DB['deploys']>, 'id' | 'site_id' | 'seq' | 'git_preview_id'>,
  tokenHashOf: (previewId: string, generation: number) => string,
  now: Date,
): Promise<'shown' | 'closed' | 'overtaken'> {
  const preview = await tx
    .selectFrom('git_previews')
    .selectAll()
    .where('id', '=', deploy.git_preview_id)
    .where('closed_at', 'is', null)
    .where('updated_at', '>', new Date(now.getTime() - previewLinkPeriodMs))
    .executeTakeFirst()
  if (!preview) return 'closed'
  if (await isOvertakenInPreview(tx, preview.id, deploy.seq)) return 'overtaken'
  const token_sha256 = tokenHashOf(preview.id, preview.generation)
  if (preview.deploy_id === deploy.id && preview.token_sha256 === token_sha256) return 'shown'
  await tx.updateTable('git_previews').set({ deploy_id: deploy.id, token_sha256 }).where('id', '=', preview.id).execute()
  await bumpRoutes(tx, { site_id: deploy.site_id })
  return 'shown'
}

async function isOvertakenInPreview(tx: Tx, previewId: string, seq: number): Promise<boolean> {
  const later = await tx
    .selectFrom('deploys')
    .select('id')
    .where('git_preview_id', '=', previewId)
    .where('seq', '>', seq)
    .where('status', 'in', ['ready', 'active', 'superseded'])
    .limit(1)
    .executeTakeFirst()
  return later !== undefined
}

const endLink = (tx: Tx) =>
  tx.updateTable('git_previews').set((eb) => ({ token_sha256: null, deploy_id: null, generation: eb('generation', '+', 1) }))

const close = (tx: Tx, now: Date) => endLink(tx).set({ closed_at: now }).where('closed_at', 'is', null)

/**
 * Ends the preview of a branch or pull request for good: when it opens again it has another link. Undefined when none is open. The caller
 * holds the locks of the project and the site; the edge follows with the commit.
 */
export async function closeGitPreview(
  tx: Tx,
  { site_id, ref }: Pick<GitPreviewRow, 'site_id' | 'ref'>,
  now: Date,
): Promise<GitPreviewRow | undefined> {
  const closed = await close(tx, now).where('site_id', '=', site_id).where('ref', '=', ref).returningAll().executeTakeFirst()
  if (closed) await bumpRoutes(tx, { site_id })
  return closed
}

/** Closes every preview of the site, under the same locks. */
export async function closeGitPreviewsOfSite(tx: Tx, siteId: string, now: Date): Promise<GitPreviewRow[]> {
  const closed = await close(tx, now).where('site_id', '=', siteId).returningAll().execute()
  if (closed.length > 0) await bumpRoutes(tx, { site_id: siteId })
  return closed
}

/** Built previews have their time; one that waits for its approval waits on. */
const isExpired = (pushedBy: Date) =>
  sql<boolean>`git_previews.closed_at is null and git_previews.approved and git_previews.updated_at <= ${pushedBy}`

/** Closes those of the site that were pushed to at that instant or before, under the same locks. */
export async function closeExpiredGitPreviews(tx: Tx, siteId: string, pushedBy: Date, now: Date): Promise<GitPreviewRow[]> {
  const closed = await close(tx, now).where('site_id', '=', siteId).where(isExpired(pushedBy)).returningAll().execute()
  if (closed.length > 0) await bumpRoutes(tx, { site_id: siteId })
  return closed
}

/** The sites, of one or of all, with an open preview that was pushed to at that instant or before. */
export function listSitesOfExpiredGitPreviews(
  db: Db,
  pushedBy: Date,
  siteId?: string,
): Promise<Pick<GitPreviewRow, 'site_id' | 'project_id'>[]> {
  return db
    .selectFrom('git_previews')
    .select(['site_id', 'project_id'])
    .distinct()
    .where(isExpired(pushedBy))
    .$if(siteId !== undefined, (query) => query.where('site_id', '=', siteId ?? ''))
    .execute()
}

/**
 * Ends the link that shows a deploy whose files go, and closes the preview unless another deploy of it is on its way. False when no link
 * shows it. The caller holds the same locks and gives the site its next route version.
 */
export async function endGitPreviewOfDeploy(tx: Tx, deployId: string, now: Date): Promise<boolean> {
  const isAwaited = sql`exists (
    select from deploys next where next.git_preview_id = git_previews.id and next.status in ('queued', 'building')
  )`
  const ended = await endLink(tx)
    .set({ closed_at: sql<Date | null>`case when not ${isAwaited} then ${now}::timestamptz end` })
    .where('deploy_id', '=', deployId)
    .executeTakeFirst()
  return ended.numUpdatedRows > 0n
}

/** Takes the site's lock when the deploy is of a preview; false when it is not. */
export async function lockSiteOfGitPreview(tx: Tx, deployId: string): Promise<boolean> {
  const site = await tx
    .selectFrom('sites')
    .innerJoin('deploys', 'deploys.site_id', 'sites.id')
    .select('sites.id')
    .where('deploys.id', '=', deployId)
    .where('deploys.git_preview_id', 'is not', null)
    .forNoKeyUpdate('sites')
    .executeTakeFirst()
  return site !== undefined
}
