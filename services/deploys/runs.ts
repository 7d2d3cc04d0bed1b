import { sql, type Updateable } from 'kysely'
import { type BuildMode, type DeployStatus, deployActions, type SourceKind } from '../../core/deploy.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'
import type { DeployRow } from './deploys.ts'

// The progress of a deploy: only the run of its workflow that owns it may change its status.

/** One run of the workflow of one attempt. */
export interface DeployRun {
  readonly deploy_id: string
  readonly attempt: number
  readonly run_id: string
}

/** The facts of a claimed deploy for its workflow. */
export interface ClaimedDeploy {
  readonly status: DeployStatus
  readonly seq: number
  readonly project_id: string
  readonly site_id: string
  readonly site_name: string
  readonly activate: boolean
  readonly source_kind: SourceKind
  readonly has_source: boolean
  /** Whether the files are stored already. */
  readonly is_stored: boolean
  /** The branch or preview of a git deploy. */
  readonly git_ref: string | null
  /** Whether the site has checks enabled and the files were not checked yet. */
  readonly to_check: boolean
}

/** The branch or preview of a git deploy, as far as known. */
const refOfDeploy = sql<string | null>`
  case when deploys.source_kind = 'git' then coalesce(
    deploys.git ->> 'ref',
    (select ref from git_previews where git_previews.id = deploys.git_preview_id),
    (select branch from git_connections where git_connections.site_id = deploys.site_id)) end`.as('git_ref')

/**
 * Claims a deploy for a run. Stored files become `building`; a deploy that has to be built stays `queued` until {@link markBuilding}; `ready`
 * (built, but never activated) stays. Undefined when another attempt or run owns it or it has ended. May be repeated by the same run, which gets
 * a deploy that it has published as well.
 */
export async function claimDeploy(db: Db, run: DeployRun, now: Date): Promise<ClaimedDeploy | undefined> {
  return await db
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
    .where((eb) =>
      eb.or([
        eb('deploys.run_id', 'is', null).and('deploys.status', 'in', ['queued', 'building', 'ready']),
        eb('deploys.run_id', '=', run.run_id).and('deploys.status', '!=', 'failed'),
      ]),
    )
    .returning(['deploys.status', 'deploys.seq', 'deploys.project_id', 'deploys.site_id', 'deploys.activate'])
    .returning(['deploys.source_kind', 'sites.name as site_name'])
    .returning(sql<boolean>`deploys.source_sha256 is not null`.as('has_source'))
    .returning(sql<boolean>`deploys.manifest_sha256 is not null`.as('is_stored'))
    .returning(refOfDeploy)
    .returning(sql<boolean>`sites.checks_enabled and deploys.recommendations is null`.as('to_check'))
    .executeTakeFirst()
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

/** `building` → `ready`. Undefined when this run no longer owns an unended deploy. Stored files have their outcome already. */
export function readyDeploy(tx: Tx, run: DeployRun, outcome: BuildOutcome | null, now: Date): Promise<DeployRow | undefined> {
  return endBuild(tx, run, { ...outcome, status: 'ready' }, now)
}

type FailureFacts = Partial<Pick<BuildOutcome, 'build_mode' | 'skipped_paths' | 'build_seconds'>> & {
  readonly cancelled?: boolean
}

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

/** The source of a failed deploy, if it is an archive, which can be retried: a repository still has its commit. */
const keptSource = sql<string | null>`case when source_kind = 'archive' then source_sha256 end`

/** Ends a build. */
function endBuild(tx: Tx, run: DeployRun, { skipped_paths, ...change }: BuildEnd, now: Date): Promise<DeployRow | undefined> {
  // the signal that a runner has begun may be lost or late, but a build with a result has begun
  const began = change.build_mode ? new Date(now.getTime() - (change.build_seconds ?? 0) * 1000) : null
  return tx
    .updateTable('deploys')
    .set((eb) => ({
      ...change,
      // keeps the paths that were left out of the repository
      skipped_paths: sql<string[]>`skipped_paths || ${skipped_paths ?? []}::text[]`,
      started_at: eb.fn.coalesce('started_at', sql<Date | null>`${began}::timestamptz`),
      finished_at: now,
      source_sha256: change.status === 'failed' ? keptSource : null,
    }))
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .where('status', 'in', ['queued', 'building'])
    .returningAll()
    .executeTakeFirst()
}

/** `queued` or `building` → `failed`, whichever run owns it. Undefined when it has ended. */
export function cancelUnended(tx: Tx, id: string, error: string, now: Date): Promise<DeployRow | undefined> {
  return tx
    .updateTable('deploys')
    .set({ status: 'failed', cancelled: true, error, finished_at: now, source_sha256: keptSource })
    .where('id', '=', id)
    .where('status', 'in', deployActions.cancel)
    .returningAll()
    .executeTakeFirst()
}

/** One attempt of a deploy, whichever run of its workflow works on it. */
export type DeployAttempt = Pick<DeployRun, 'deploy_id' | 'attempt'>

/** `queued` or `building` → `failed`. Undefined when it has ended, or another attempt has begun. */
export function failAttempt(
  tx: Tx,
  { deploy_id, attempt }: DeployAttempt,
  error: string,
  now: Date,
): Promise<DeployRow | undefined> {
  return tx
    .updateTable('deploys')
    .set({ status: 'failed', error, finished_at: now, source_sha256: keptSource })
    .where('id', '=', deploy_id)
    .where('attempt', '=', attempt)
    .where('status', 'in', ['queued', 'building'])
    .returningAll()
    .executeTakeFirst()
}

/** Adds what a build that was cancelled had done. Undefined when it was not cancelled, or the facts are known. */
export function addFactsOfCancelled(
  tx: Tx,
  run: DeployRun,
  { skipped_paths, ...facts }: Pick<BuildOutcome, 'build_mode' | 'skipped_paths' | 'build_seconds'>,
): Promise<Pick<DeployRow, 'project_id'> | undefined> {
  return tx
    .updateTable('deploys')
    .set({ ...facts, skipped_paths: sql<string[]>`skipped_paths || ${skipped_paths}::text[]` })
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .where('cancelled', '=', true)
    .where('build_mode', 'is', null)
    .returning('project_id')
    .executeTakeFirst()
}

/** Selects the run's deploy; nothing when another run owns it. */
const deployOfRun = (db: Db, run: DeployRun) =>
  db.selectFrom('deploys').where('id', '=', run.deploy_id).where('attempt', '=', run.attempt).where('run_id', '=', run.run_id)

/** The source of the run's build, until it ends, and its preview. Undefined when another run owns the deploy. */
export function findBuildOfRun(tx: Tx, run: DeployRun): Promise<Pick<DeployRow, 'source_sha256' | 'git_preview_id'> | undefined> {
  return deployOfRun(tx, run).select(['source_sha256', 'git_preview_id']).executeTakeFirst()
}

/** The state of the run's deploy; undefined when another run owns it. */
export function findDeployOfRun(db: Db, run: DeployRun): Promise<DeployEnd | undefined> {
  return deployOfRun(db, run).select(['status', 'error', 'cancelled']).executeTakeFirst()
}

type DeployEnd = Pick<DeployRow, 'status' | 'error' | 'cancelled'>

/** The state of the deploy; undefined when another attempt has begun. */
export function findDeployOfAttempt(db: Db, { deploy_id, attempt }: DeployAttempt): Promise<DeployEnd | undefined> {
  const deploys = db.selectFrom('deploys').where('id', '=', deploy_id).where('attempt', '=', attempt)
  return deploys.select(['status', 'error', 'cancelled']).executeTakeFirst()
}

/** Lists deploys after `afterId` that have not changed since `before`, by id: a crash may have left them. */
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

/**
 * Begins the next attempt of a stalled deploy, which must wait for a permit again; its built files are kept. False when it has moved on.
 */
export async function retryDeploy(tx: Tx, id: string, attempt: number): Promise<boolean> {
  const result = await tx
    .updateTable('deploys')
    .set((eb) => ({
      attempt: attempt + 1,
      run_id: null,
      turn_at: null,
      fetch_after: null,
      started_at: sql<Date | null>`case when ${eb.ref('status')} = 'ready' then ${eb.ref('started_at')} end`,
      status: sql<DeployStatus>`case when ${eb.ref('status')} = 'ready' then 'ready' else 'queued' end`,
    }))
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where(isUnfinished)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Queued or building, or built but neither published nor purged although it is to be published. */
const isUnfinished = sql<boolean>`
  (deploys.status in ('queued', 'building') or (deploys.status = 'ready' and deploys.activate and not deploys.artifacts_purged))`
