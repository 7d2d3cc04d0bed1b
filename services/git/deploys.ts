import { sql, type Updateable } from 'kysely'
import type { GitSource } from '../../core/deploy.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import type { DeployRun } from '../deploys/runs.ts'
import type { Tx } from '../transact.ts'

/** The latest deploy of the branch that goes live, or of a preview. Until it is fetched, its `git` is what the push said about the commit. */
export function newestGitDeploy(
  db: Db,
  siteId: string,
  previewId: string | null,
): Promise<Pick<DeployRow, 'id' | 'status' | 'git'> | undefined> {
  return db
    .selectFrom('deploys')
    .select(['id', 'status', 'git'])
    .where('site_id', '=', siteId)
    .where('source_kind', '=', 'git')
    .where('git_preview_id', 'is not distinct from', previewId)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
}

export interface Push {
  readonly site_id: string
  /** Null is the branch that goes live. */
  readonly git_preview_id: string | null
  /** Null when nothing is known about the commit. */
  readonly git: GitSource | null
}

/**
 * Lets a push join a deploy of the same ref that has not begun, because it will fetch the head of that moment. A deploy whose repository was away
 * has not begun. Undefined when there is none, or when another deploy that goes live was accepted after it. The caller holds the project's lock,
 * under which permits are granted.
 */
export function joinWaitingDeploy(tx: Tx, { site_id, git_preview_id, git }: Push): Promise<DeployRow | undefined> {
  return tx
    .updateTable('deploys')
    .set((eb) => ({ git: git ? jsonb(git) : eb.ref('git') }))
    .where('site_id', '=', site_id)
    .where('source_kind', '=', 'git')
    .where('git_preview_id', 'is not distinct from', git_preview_id)
    .where('status', '=', 'queued')
    .where('turn_at', 'is', null)
    .where('source_sha256', 'is', null)
    .where('fetch_commit', 'is', null)
    .where((eb) => {
      const later = eb
        .selectFrom('deploys as later')
        .select('later.id')
        .whereRef('later.site_id', '=', 'deploys.site_id')
        .whereRef('later.seq', '>', 'deploys.seq')
      const ofPreview = later.where('later.git_preview_id', '=', git_preview_id)
      return eb.not(eb.exists(git_preview_id === null ? later.where('later.activate', '=', true) : ofPreview))
    })
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('sites')
          .select('sites.id')
          .whereRef('sites.id', '=', 'deploys.site_id')
          .where('sites.deletion_scheduled_at', 'is', null),
      ),
    )
    .returningAll()
    .executeTakeFirst()
}

/** The facts for fetching the source of a deploy. Columns of the connection are null when the site is not connected any more. */
export interface GitFetch {
  readonly site_id: string
  readonly project_id: string
  readonly source_sha256: string | null
  readonly git: GitSource | null
  /** The commit to fetch, of a retry; null fetches the head. */
  readonly fetch_commit: string | null
  /** Whether it goes live; otherwise it is for a preview. */
  readonly activate: boolean
  readonly repo_url: string | null
  readonly branch: string | null
  readonly token_sealed: string | null
  /** The ref of the preview; null when there is none any more. */
  readonly preview_ref: string | null
  readonly fetch_ref: string | null
  readonly may_build: boolean
}

/** Undefined when this run does not own the waiting deploy. */
export function findGitFetch(db: Db, run: DeployRun): Promise<GitFetch | undefined> {
  return db
    .selectFrom('deploys')
    .leftJoin('git_connections', 'git_connections.site_id', 'deploys.site_id')
    .leftJoin('git_previews', 'git_previews.id', 'deploys.git_preview_id')
    .select([
      'deploys.site_id',
      'deploys.project_id',
      'deploys.source_sha256',
      'deploys.git',
      'deploys.activate',
      'deploys.fetch_commit',
    ])
    .select(['repo_url', 'git_connections.branch', 'token_sealed', 'git_previews.ref as preview_ref', 'fetch_ref'])
    .select(sql<boolean>`coalesce(git_previews.closed_at is null and git_previews.approved, false)`.as('may_build'))
    .where('deploys.id', '=', run.deploy_id)
    .where('deploys.attempt', '=', run.attempt)
    .where('deploys.run_id', '=', run.run_id)
    .where('deploys.status', '=', 'queued')
    .executeTakeFirst()
}

export interface FetchedContent {
  readonly git: GitSource
  readonly source: { readonly sha256: string; readonly size: number }
  readonly skipped_paths: readonly string[]
}

/** Stores the fetched source of a deploy, and returns its permit to fetch. False when this run does not own the waiting deploy, or it has a source. */
export function setFetchedSource(tx: Tx, run: DeployRun, { source, git, skipped_paths }: FetchedContent): Promise<boolean> {
  const fetched = { source_sha256: source.sha256, source_bytes: source.size, git, skipped_paths: [...skipped_paths] }
  return updateUnfetched(tx, run, { ...fetched, turn_at: null })
}

/** Returns the permit of a fetch that is retried at the instant. False when the run does not own a waiting deploy without a source. */
export function waitForRepository(tx: Tx, run: DeployRun, fetch_after: Date): Promise<boolean> {
  return updateUnfetched(tx, run, { turn_at: null, fetch_after })
}

/** Changes the deploy that this run fetches for. False when another run owns it, it no longer waits, or it has a source. */
async function updateUnfetched(tx: Tx, run: DeployRun, values: Updateable<DB['deploys']>): Promise<boolean> {
  const result = await tx
    .updateTable('deploys')
    .set(values)
    .where('id', '=', run.deploy_id)
    .where('attempt', '=', run.attempt)
    .where('run_id', '=', run.run_id)
    .where('status', '=', 'queued')
    .where('source_sha256', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}
