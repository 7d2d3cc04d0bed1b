import { type RawBuilder, type Selectable, type SqlBool, sql } from 'kysely'
import type { DeployStatus } from '../../core/deploy.ts'
import { previewLinkPeriodMs } from '../../core/limits.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Tx } from '../transact.ts'
import { endLinksOfBranchPreviews, showDeploy } from './links.ts'

/** The preview of a branch or pull request: one link of `preview_links`, which shows its newest deploy. */
export type BranchPreviewRow = Selectable<DB['git_previews']>

/** A branch or pull request, as a forge reports it. */
export interface OpenedPreview {
  readonly site_id: string
  readonly project_id: string
  /** The name that `previewRef` gives it. */
  readonly ref: string
  readonly fetch_ref: string
  readonly pull_request: number | null
  readonly branch: string
  readonly from_fork: boolean
  readonly head_commit: string | null
}

/**
 * Records a push: creates the preview of the ref, or opens a closed one. An approval stays, the number of a pull request stays while
 * the preview is open, and the comment of another pull request is forgotten.
 */
export async function openBranchPreview(tx: Tx, opened: OpenedPreview, now: Date): Promise<BranchPreviewRow> {
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

/** Finds a preview, open or closed; undefined when there never was one. */
export function findBranchPreview(db: Db, siteId: string, ref: string): Promise<BranchPreviewRow | undefined> {
  return db.selectFrom('git_previews').selectAll().where('site_id', '=', siteId).where('ref', '=', ref).executeTakeFirst()
}

/** Undefined when the preview is closed, or may not be built. */
export function findOpenPreview(db: Db, id: string): Promise<BranchPreviewRow | undefined> {
  const open = db.selectFrom('git_previews').selectAll().where('id', '=', id).where('closed_at', 'is', null)
  return open.where('approved', '=', true).executeTakeFirst()
}

/** A preview with its link, if it has had one, and its newest deploy in any status. */
export interface ListedBranchPreview extends BranchPreviewRow {
  readonly deploy_id: string | null
  readonly generation: number | null
  readonly token_sha256: string | null
  readonly newest_deploy_id: string | null
  readonly newest_status: DeployStatus | null
  readonly newest_purged: boolean | null
  readonly newest_commit: string | null
}

const withNewest = (db: Db) =>
  db
    .selectFrom('git_previews')
    .leftJoin('preview_links', 'preview_links.git_preview_id', 'git_previews.id')
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
    .select(['preview_links.deploy_id', 'preview_links.generation', 'preview_links.token_sha256'])
    .select(['newest.id as newest_deploy_id', 'newest.status as newest_status', 'newest.artifacts_purged as newest_purged'])
    .select(sql<string | null>`newest.git ->> 'commit'`.as('newest_commit'))

/** The open previews of a site, the latest push first, in batches. */
export const readBranchPreviews = (db: Db, projectId: string, siteId: string) =>
  readInPages<ListedBranchPreview>(({ after, limit }) =>
    withNewest(db)
      .where('git_previews.project_id', '=', projectId)
      .where('git_previews.site_id', '=', siteId)
      .where('git_previews.closed_at', 'is', null)
      .$if(after !== undefined, (query) =>
        query.where(sql<SqlBool>`(git_previews.updated_at, git_previews.id) < (${after?.updated_at}, ${after?.id})`),
      )
      .orderBy('git_previews.updated_at', 'desc')
      .orderBy('git_previews.id', 'desc')
      .limit(limit)
      .execute(),
  )

/** Undefined when the site has no such preview; it may be closed. */
export function findListedBranchPreview(
  db: Db,
  projectId: string,
  { site_id, preview_id }: { readonly site_id: string; readonly preview_id: string },
): Promise<ListedBranchPreview | undefined> {
  return withNewest(db)
    .where('git_previews.project_id', '=', projectId)
    .where('git_previews.site_id', '=', site_id)
    .where('git_previews.id', '=', preview_id)
    .executeTakeFirst()
}

/** Allows builds of a pull request from a fork, and restarts the time of its preview. False when that is closed. */
export async function approveBranchPreview(tx: Tx, id: string, now: Date): Promise<boolean> {
  const approved = await tx
    .updateTable('git_previews')
    .set({ approved: true, updated_at: now })
    .where('id', '=', id)
    .where('closed_at', 'is', null)
    .executeTakeFirst()
  return approved.numUpdatedRows > 0n
}

/**
 * Lets the link of a preview show a deploy that is ready. `overtaken`: a later deploy of the preview was ready before; `closed`: the preview
 * is closed or expired. The caller holds the site's lock; the edge is notified with the commit. May be repeated.
 * @param tokenHashOf the hash of the token of a preview's generation
 */
export async function showBranchPreview(
  tx: Tx,
  deploy: Pick<Selectable<DB['deploys']>, 'id' | 'site_id' | 'seq' | 'git_preview_id'>,
  tokenHashOf: (previewId: string, generation: number) => string,
  now: Date,
): Promise<'shown' | 'closed' | 'overtaken'> {
  const preview = await tx
    .selectFrom('git_previews')
    .select('id')
    .where('id', '=', deploy.git_preview_id)
    .where('closed_at', 'is', null)
    .where('updated_at', '>', new Date(now.getTime() - previewLinkPeriodMs))
    .executeTakeFirst()
  if (!preview) return 'closed'
  if (await isOvertakenInPreview(tx, preview.id, deploy.seq)) return 'overtaken'
  const owner = { id: preview.id, site_id: deploy.site_id, git_preview_id: preview.id }
  await showDeploy(tx, owner, deploy.id, (generation) => tokenHashOf(preview.id, generation), now)
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

/** Closes the matching open previews of the site, and ends their links. */
async function close(tx: Tx, site_id: string, which: RawBuilder<boolean>, now: Date): Promise<BranchPreviewRow[]> {
  const closed = await tx
    .updateTable('git_previews')
    .set({ closed_at: now })
    .where('site_id', '=', site_id)
    .where('closed_at', 'is', null)
    .where(which)
    .returningAll()
    .execute()
  if (closed.length === 0) return []
  const ids = closed.map((preview) => preview.id)
  await endLinksOfBranchPreviews(tx, ids)
  await bumpRoutes(tx, { site_id })
  return closed
}

/**
 * Ends the preview of a branch or pull request for good: when it opens again it has another link. Undefined when none is open. The caller
 * holds the locks of the project and the site; the edge is notified with the commit.
 */
export async function closeBranchPreview(
  tx: Tx,
  { site_id, ref }: Pick<BranchPreviewRow, 'site_id' | 'ref'>,
  now: Date,
): Promise<BranchPreviewRow | undefined> {
  const [closed] = await close(tx, site_id, sql`ref = ${ref}`, now)
  return closed
}

/** Closes every preview of the site, under the same locks. */
export const closeBranchPreviewsOfSite = (tx: Tx, siteId: string, now: Date) => close(tx, siteId, sql`true`, now)

/** Only approved previews expire; one that waits for its approval does not. */
const isExpired = (pushedBy: Date) =>
  sql<boolean>`git_previews.closed_at is null and git_previews.approved and git_previews.updated_at <= ${pushedBy}`

/** Closes the previews of the site whose latest push was at the instant or before, under the same locks. */
export const closeExpiredBranchPreviews = (tx: Tx, siteId: string, pushedBy: Date, now: Date) =>
  close(tx, siteId, isExpired(pushedBy), now)

/** Lists the sites, one or all, with an open preview whose latest push was at the instant or before. */
export function listSitesOfExpiredBranchPreviews(
  db: Db,
  pushedBy: Date,
  siteId?: string,
): Promise<Pick<BranchPreviewRow, 'site_id' | 'project_id'>[]> {
  return db
    .selectFrom('git_previews')
    .select(['site_id', 'project_id'])
    .distinct()
    .where(isExpired(pushedBy))
    .$if(siteId !== undefined, (query) => query.where('site_id', '=', siteId ?? ''))
    .execute()
}

/**
 * Closes previews whose link has ended with the files of the deploy that it showed, except those with another deploy under way. The caller
 * holds the same locks and gives the site its next route version.
 */
export async function closeUnlessAwaited(tx: Tx, previewIds: readonly string[], now: Date): Promise<void> {
  const isAwaited = sql<boolean>`exists (
    select from deploys next where next.git_preview_id = git_previews.id and next.status in ('queued', 'building')
  )`
  await tx
    .updateTable('git_previews')
    .set({ closed_at: now })
    .where('id', 'in', previewIds)
    .where((eb) => eb.not(isAwaited))
    .execute()
}
