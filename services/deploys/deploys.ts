import type { Selectable } from 'kysely'
import type { Recommendation } from '../../core/checks/recommendation.ts'
import type { DeployStatus, GitSource, SourceKind } from '../../core/deploy.ts'
import { bytesOf, type RowSize, readBySize } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { endLinkOfDeploy } from '../previews/links.ts'
import { type LockedSite, lockSiteOf } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { queueCompression } from './compress.ts'

export type DeployRow = Selectable<DB['deploys']>

export interface NewDeploy {
  readonly site_id: string
  readonly project_id: string
  readonly source_kind: SourceKind
  readonly activate: boolean
  readonly title?: string | undefined
  /** The archive in the CAS; absent when the files are stored already or must still be fetched. */
  readonly source?: { readonly sha256: string; readonly size: number }
  /** The known facts of a deploy whose files are stored. */
  readonly copy?: {
    readonly manifest_sha256: string
    readonly file_count: number
    readonly total_bytes: number
    readonly skipped_paths: string[]
  }
  /** The recommendations of a check of all its files. */
  readonly recommendations?: readonly Recommendation[] | undefined
  /** What the push said about the commit of a git deploy. */
  readonly git?: GitSource | null
  /** The commit to fetch instead of the head of the branch. */
  readonly fetch_commit?: string
  /** The preview that a git deploy is for; null is the branch that goes live. */
  readonly git_preview_id?: string | null
}

/** Gives the deploy the site's next number. Undefined when the site is gone or in the trash. */
export async function insertDeploy(tx: Tx, deploy: NewDeploy, now: Date): Promise<DeployRow | undefined> {
  const site = await tx
    .updateTable('sites')
    .set((eb) => ({ last_deploy_seq: eb('last_deploy_seq', '+', 1) }))
    .where('id', '=', deploy.site_id)
    .where('deletion_scheduled_at', 'is', null)
    .returning('last_deploy_seq')
    .executeTakeFirst()
  if (!site) return undefined
  const { source, copy, recommendations, ...always } = deploy
  return await tx
    .insertInto('deploys')
    .values({
      ...always,
      seq: site.last_deploy_seq,
      is_preview: !deploy.activate,
      source_sha256: source?.sha256 ?? null,
      source_bytes: source?.size ?? null,
      build_mode: copy ? 'copy' : null,
      ...copy,
      ...(recommendations && { recommendations: jsonb([...recommendations]) }),
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export interface DeployPage {
  /** The deploys of the page, newest first, for {@link readDeploys}. */
  readonly sizes: readonly RowSize[]
  /** The id of the last one, when others follow. */
  readonly next: string | undefined
}

/** Lists deploys, newest first; `before` is the id of the last deploy of the previous page. */
export async function listDeploys(
  db: Db,
  projectId: string,
  siteId: string,
  page: { readonly limit: number; readonly before?: string | undefined; readonly status?: DeployStatus | undefined },
): Promise<DeployPage> {
  const { before, status, limit } = page
  const rows = await db
    .selectFrom('deploys')
    .select(['id', bytesOf('skipped_paths').as('bytes')])
    .where('project_id', '=', projectId)
    .where('site_id', '=', siteId)
    .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'active'))
    .$if(before !== undefined, (query) =>
      query.where('seq', '<', (eb) =>
        eb
          .selectFrom('deploys as mark')
          .select('mark.seq')
          .where('mark.site_id', '=', siteId)
          .where('mark.id', '=', before ?? ''),
      ),
    )
    .orderBy('seq', 'desc')
    .limit(limit + 1)
    .execute()
  const sizes = rows.slice(0, limit)
  return { sizes, next: rows.length > limit ? sizes.at(-1)?.id : undefined }
}

/** The deploys of a page, in batches. */
export const readDeploys = (db: Db, projectId: string, sizes: readonly RowSize[]): AsyncGenerator<DeployRow[]> =>
  readBySize(sizes, (ids) =>
    db.selectFrom('deploys').selectAll().where('project_id', '=', projectId).where('id', 'in', ids).execute(),
  )

/** Undefined when the project has no such deploy. */
export function findDeploy(db: Db, projectId: string, id: string): Promise<DeployRow | undefined> {
  return db.selectFrom('deploys').selectAll().where('project_id', '=', projectId).where('id', '=', id).executeTakeFirst()
}

/** Returns those of the deploys that were accepted at the instant or later, of any project, for the platform's own cleaning. */
export async function listDeploysSince(db: Db, ids: readonly string[], since: Date): Promise<string[]> {
  const rows = await db.selectFrom('deploys').select('id').where('id', 'in', ids).where('created_at', '>=', since).execute()
  return rows.map((row) => row.id)
}

/** The deploy under the lock of its site, with which the active deploy changes. */
export async function lockSiteOfDeploy(tx: Tx, deployId: string): Promise<{ deploy: DeployRow; site: LockedSite } | undefined> {
  const site = await lockSiteOf(tx, 'deploys', deployId)
  if (!site) return undefined
  const deploy = await tx.selectFrom('deploys').selectAll().where('id', '=', deployId).executeTakeFirstOrThrow()
  return { deploy, site }
}

/** Whether a deploy that was accepted later has been live already. */
export async function isOvertaken(tx: Tx, deploy: Pick<DeployRow, 'site_id' | 'seq'>): Promise<boolean> {
  const later = await tx
    .selectFrom('deploys')
    .select('id')
    .where('site_id', '=', deploy.site_id)
    .where('seq', '>', deploy.seq)
    .where('activated_at', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return later !== undefined
}

/** Marks a built deploy as superseded, because a later one is live already: only a rollback reaches it. */
export async function supersedeDeploy(tx: Tx, id: string): Promise<void> {
  await tx.updateTable('deploys').set({ status: 'superseded' }).where('id', '=', id).where('status', '=', 'ready').execute()
}

/**
 * Makes a deploy live and ends its preview link. The caller holds the site's lock and has checked that the deploy may be
 * activated. Returns the id of the deploy that was live before, null when there was none.
 */
export async function setActive(
  tx: Tx,
  deploy: Pick<DeployRow, 'id' | 'site_id'>,
  now: Date,
): Promise<{ deploy: DeployRow; previous_deploy_id: string | null }> {
  const previous = await tx
    .updateTable('deploys')
    .set({ status: 'superseded' })
    .where('site_id', '=', deploy.site_id)
    .where('status', '=', 'active')
    .where('id', '!=', deploy.id)
    .returning('id')
    .executeTakeFirst()
  const active = await tx
    .updateTable('deploys')
    .set({ status: 'active', is_preview: false, activated_at: now })
    .where('id', '=', deploy.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await tx.updateTable('sites').set({ active_deploy_id: deploy.id }).where('id', '=', deploy.site_id).execute()
  await endLinkOfDeploy(tx, deploy.id)
  await queueCompression(tx, active, now)
  await bumpRoutes(tx, { site_id: deploy.site_id })
  return { deploy: active, previous_deploy_id: previous?.id ?? null }
}

/** Finds a deploy that still has to be checked; undefined when that was done, is not wanted or not possible. */
export function findUncheckedDeploy(db: Db, id: string): Promise<{ project_id: string; manifest_sha256: string } | undefined> {
  return db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .select(['deploys.project_id', 'deploys.manifest_sha256'])
    .where('deploys.id', '=', id)
    .where('deploys.recommendations', 'is', null)
    .where('deploys.manifest_sha256', 'is not', null)
    .where('deploys.artifacts_purged', '=', false)
    .where('sites.checks_enabled', '=', true)
    .$narrowType<{ manifest_sha256: string }>()
    .executeTakeFirst()
}

/** Stores recommendations, unless there are some already: the files of a deploy never change. */
export async function setRecommendations(db: Db, id: string, list: readonly Recommendation[]): Promise<void> {
  await db
    .updateTable('deploys')
    .set({ recommendations: jsonb([...list]) })
    .where('id', '=', id)
    .where('recommendations', 'is', null)
    .execute()
}

/** The recommendations for a deploy that its owner sees; empty when the site's checks are off. */
export async function findRecommendations(db: Db, projectId: string, id: string): Promise<Recommendation[]> {
  const found = await db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .select('deploys.recommendations')
    .where('deploys.project_id', '=', projectId)
    .where('deploys.id', '=', id)
    .where('sites.checks_enabled', '=', true)
    .executeTakeFirst()
  return found?.recommendations ?? []
}
