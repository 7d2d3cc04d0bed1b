import { type Selectable, sql, type Updateable } from 'kysely'
import type { Recommendation } from '../../core/checks/recommendation.ts'
import type { BuildMode, DeployStatus, GitSource, SourceKind } from '../../core/deploy.ts'
import type { Db, Tx } from './database.ts'
import { endPreview } from './previews.ts'
import { bumpRoutes } from './routes.ts'
import type { DB } from './schema.ts'

export type DeployRow = Selectable<DB['deploys']>

export interface NewDeploy {
  readonly site_id: string
  readonly project_id: string
  readonly source_kind: SourceKind
  readonly activate: boolean
  /** The archive in the CAS; absent when the files are stored already or are still to be fetched. */
  readonly source?: { readonly sha256: string; readonly size: number }
  /** What is already known of a deploy whose files are stored. */
  readonly copy?: {
    readonly manifest_sha256: string
    readonly file_count: number
    readonly total_bytes: number
    readonly skipped_paths: string[]
  }
  /** What a look through all of its files found. */
  readonly recommendations?: readonly Recommendation[] | undefined
  /** What is said of the commit that a git deploy will fetch. */
  readonly git?: GitSource | null
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
      ...(recommendations && { recommendations: jsonb(recommendations) }),
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Newest first; `before` is the id of the deploy after which the page begins. */
export function listDeploys(
  db: Db,
  projectId: string,
  siteId: string,
  page: { limit: number; before?: string | undefined },
): Promise<DeployRow[]> {
  const { before } = page
  return db
    .selectFrom('deploys')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('site_id', '=', siteId)
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
    .limit(page.limit)
    .execute()
}

/** Undefined when the project has no such deploy. */
export function findDeploy(db: Db, projectId: string, id: string): Promise<DeployRow | undefined> {
  return db.selectFrom('deploys').selectAll().where('project_id', '=', projectId).where('id', '=', id).executeTakeFirst()
}

/** Those of the deploys that were accepted at the instant or later; of any project, for the platform's own cleaning. */
export async function listDeploysSince(db: Db, ids: readonly string[], since: Date): Promise<string[]> {
  const rows = await db.selectFrom('deploys').select('id').where('id', 'in', ids).where('created_at', '>=', since).execute()
  return rows.map((row) => row.id)
}

/** One run of the workflow of one attempt: only it may move the deploy on. */
export interface DeployRun {
  readonly deploy_id: string
  readonly attempt: number
  readonly run_id: string
}

/** What the workflow needs to know of the deploy that it claimed. */
export interface ClaimedDeploy {
  readonly status: DeployStatus
  readonly seq: number
  readonly project_id: string
  readonly site_id: string
  readonly site_name: string
  readonly activate: boolean
  readonly source_kind: SourceKind
  readonly has_source: boolean
  /** The files are stored already. */
  readonly is_stored: boolean
  /** The branch or preview of a git deploy. */
  readonly git_ref: string | null
  /** The site wants recommendations, and the files have not been looked through. */
  readonly to_check: boolean
}

/** The branch or the preview that a git deploy is of, as far as known. */
const refOfDeploy = sql<string | null>`
  case when deploys.source_kind = 'git' then coalesce(
    deploys.git ->> 'ref',
    (select ref from git_previews where git_previews.id = deploys.git_preview_id),
    (select branch from git_connections where git_connections.site_id = deploys.site_id)) end`.as('git_ref')

/**
 * Takes the deploy for a run. Stored files are `building` from now on, what is to be built stays `queued` until {@link markBuilding},
 * `ready` (built, but never activated) stays. Undefined when another attempt or run owns it or it has ended. May be repeated by the same run.
 */
export async function claimDeploy(db: Db, run: DeployRun, now: Date): Promise<ClaimedDeploy | undefined> {
  const claimed = await db
    .updateTable('deploys')
    .from('sites')
    .set((eb) => ({
      status: sql<DeployStatus>`
        case when ${eb.ref('deploys.status')} = 'queued' and ${eb.ref('deploys.manifest_sha256')} is not null
        then 'building' else ${eb.ref('deploys.status')} end`,
      run_id: run.run_id,
      started_at: sql<Date | null>`
        case when ${eb.ref('deploys.manifest_sha256')} is not null
        then coalesce(${eb.ref('deploys.started_at')}, ${now}) else ${eb.ref('deploys.started_at')} end`,
    }))
    .whereRef('sites.id', '=', 'deploys.site_id')
    .where('deploys.id', '=', run.deploy_id)
    .where('deploys.attempt', '=', run.attempt)
    .where('deploys.status', 'in', ['queued', 'building', 'ready'])
    .where((eb) => eb.or([eb('deploys.run_id', 'is', null), eb('deploys.run_id', '=', run.run_id)]))
    .returning(['deploys.status', 'deploys.seq', 'deploys.project_id', 'deploys.site_id', 'deploys.activate'])
    .returning(['deploys.source_kind', 'sites.name as site_name'])
    .returning(sql<boolean>`deploys.source_sha256 is not null`.as('has_source'))
    .returning(sql<boolean>`deploys.manifest_sha256 is not null`.as('is_stored'))
    .returning(refOfDeploy)
    .returning(sql<boolean>`sites.checks_enabled and deploys.recommendations is null`.as('to_check'))
    .executeTakeFirst()
  return claimed
}

/** `queued` → `building`: a runner has begun. False when this run does not own a queued deploy. */
export async function markBuilding(db: Db, run: DeployRun, now: Date): Promise<boolean> {
  const result = await db
    .updateTable('deploys')
    .set({ status: 'building', started_at: now })
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .where('status', '=', 'queued')
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export interface BuildOutcome {
  readonly build_mode: BuildMode
  readonly skipped_paths: string[]
  readonly build_seconds: number | null
  readonly manifest_sha256: string
  readonly file_count: number
  readonly total_bytes: number
}

/** `building` → `ready`. Undefined when this run no longer owns an unended deploy. Copies know their outcome already. */
export function readyDeploy(tx: Tx, run: DeployRun, outcome: BuildOutcome | null, now: Date): Promise<DeployRow | undefined> {
  return endBuild(tx, run, { ...outcome, status: 'ready' }, now)
}

type FailureFacts = Partial<Pick<BuildOutcome, 'build_mode' | 'skipped_paths' | 'build_seconds'>>

/** `queued` or `building` → `failed`. Undefined when this run no longer owns an unended deploy. */
export function failDeploy(
  tx: Tx,
  run: DeployRun,
  failure: FailureFacts & { readonly error: string },
  now: Date,
): Promise<DeployRow | undefined> {
  return endBuild(tx, run, { ...failure, status: 'failed' }, now)
}

type BuildEnd = Omit<Updateable<DB['deploys']>, 'skipped_paths'> & { readonly skipped_paths?: string[] }

/** The source is not needed again, whatever came of it. */
function endBuild(tx: Tx, run: DeployRun, { skipped_paths, ...change }: BuildEnd, now: Date): Promise<DeployRow | undefined> {
  // the word that a runner has begun may be lost or late; what has a result did begin
  const began = change.build_mode ? new Date(now.getTime() - (change.build_seconds ?? 0) * 1000) : null
  return tx
    .updateTable('deploys')
    .set((eb) => ({
      ...change,
      // what was left out of a repository is there already
      skipped_paths: sql<string[]>`skipped_paths || ${skipped_paths ?? []}::text[]`,
      started_at: eb.fn.coalesce('started_at', sql<Date | null>`${began}::timestamptz`),
      finished_at: now,
      source_sha256: null,
    }))
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .where('status', 'in', ['queued', 'building'])
    .returningAll()
    .executeTakeFirst()
}

/** What the run has made of its deploy; undefined when another run owns it. */
export function findDeployOfRun(db: Db, run: DeployRun): Promise<Pick<DeployRow, 'status' | 'error'> | undefined> {
  return db
    .selectFrom('deploys')
    .select(['status', 'error'])
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .executeTakeFirst()
}

/** Takes the lock under which a site's active deploy changes. */
export async function lockSiteOfDeploy(tx: Tx, deployId: string): Promise<{ deploy: DeployRow; trashed: boolean } | undefined> {
  const site = await tx
    .selectFrom('sites')
    .innerJoin('deploys', 'deploys.site_id', 'sites.id')
    .select('sites.deletion_scheduled_at')
    .where('deploys.id', '=', deployId)
    .forNoKeyUpdate('sites')
    .executeTakeFirst()
  if (!site) return undefined
  const deploy = await tx.selectFrom('deploys').selectAll().where('id', '=', deployId).executeTakeFirstOrThrow()
  return { deploy, trashed: site.deletion_scheduled_at !== null }
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

/** Built, but a later deploy is live already: reachable by a rollback only. */
export async function supersedeDeploy(tx: Tx, id: string): Promise<void> {
  await tx.updateTable('deploys').set({ status: 'superseded' }).where('id', '=', id).where('status', '=', 'ready').execute()
}

/**
 * Makes the deploy the live one and ends its preview link. The caller holds the site's lock and has checked that the deploy may be
 * activated. Returns the id of the deploy that was live before, null when there was none.
 */
export async function activateDeploy(
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
  await endPreview(tx, deploy.id)
  await bumpRoutes(tx, { site_id: deploy.site_id })
  return { deploy: active, previous_deploy_id: previous?.id ?? null }
}

/** Deploys after `afterId` that nobody has moved since `before`, in the order of their ids: what a crash may have left. */
export function listStalledDeploys(db: Db, before: Date, page: { limit: number; afterId: string | undefined }) {
  return db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .select(['deploys.id as deploy_id', 'deploys.attempt', 'deploys.project_id', 'deploys.site_id', 'deploys.seq'])
    .select(['deploys.source_kind', 'deploys.git', 'sites.name as site_name'])
    .select(refOfDeploy)
    .where(isUnfinished)
    .where((eb) => eb(eb.fn.coalesce('deploys.finished_at', 'deploys.started_at', 'deploys.created_at'), '<', before))
    .$if(page.afterId !== undefined, (query) => query.where('deploys.id', '>', page.afterId ?? ''))
    .orderBy('deploys.id')
    .limit(page.limit)
    .execute()
}

/** Gives a stalled deploy its next attempt, which has to wait for a turn again; what it has built already is kept. False when it moved in the meantime. */
export async function retryDeploy(tx: Tx, id: string, attempt: number): Promise<boolean> {
  const result = await tx
    .updateTable('deploys')
    .set((eb) => ({
      attempt: attempt + 1,
      run_id: null,
      turn_at: null,
      started_at: sql<Date | null>`case when ${eb.ref('status')} = 'ready' then ${eb.ref('started_at')} end`,
      status: sql<DeployStatus>`case when ${eb.ref('status')} = 'ready' then 'ready' else 'queued' end`,
    }))
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where(isUnfinished)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Queued, in work, or built but neither published nor purged although publishing was asked for. */
const isUnfinished = sql<boolean>`
  (deploys.status in ('queued', 'building') or (deploys.status = 'ready' and deploys.activate and not deploys.artifacts_purged))`

/** The driver would write an array as one of PostgreSQL's own. */
const jsonb = (list: readonly Recommendation[]) => sql<Recommendation[]>`${JSON.stringify(list)}::jsonb`

/** What is to be looked through; undefined when that was done, is not wanted or cannot be done. */
export function findUncheckedDeploy(db: Db, id: string): Promise<{ manifest_sha256: string } | undefined> {
  return db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .select('deploys.manifest_sha256')
    .where('deploys.id', '=', id)
    .where('deploys.recommendations', 'is', null)
    .where('deploys.manifest_sha256', 'is not', null)
    .where('deploys.artifacts_purged', '=', false)
    .where('sites.checks_enabled', '=', true)
    .$narrowType<{ manifest_sha256: string }>()
    .executeTakeFirst()
}

/** Keeps what was found first: the files of a deploy never change. */
export async function setRecommendations(db: Db, id: string, list: readonly Recommendation[]): Promise<void> {
  await db
    .updateTable('deploys')
    .set({ recommendations: jsonb(list) })
    .where('id', '=', id)
    .where('recommendations', 'is', null)
    .execute()
}

/** What a site's owner is to be told about its deploy; empty when the site's checks are off. */
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
