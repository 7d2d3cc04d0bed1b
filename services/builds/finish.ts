import { isCommitId } from '../../core/git-remotes.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { overStorageQuota } from '../../core/plans.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import type { BuildOutcomeName, BuildResult } from '../../workflows/contract/builds.ts'
import type { FinishedBuild } from '../../workflows/contract/deploys.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import * as runs from '../deploys/runs.ts'
import { showBranchPreview } from '../previews/branch-previews.ts'
import { type ProjectRow, withProjectOfDeploy } from '../projects/projects.ts'
import { addBuildMinutes, addBuildTotal } from '../projects/usage.ts'
import { insertGitReport, queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { addBlobsOfDeploy, bytesOf, newBlobs, storageBytes } from '../storage/blobs.ts'
import { markRepaired } from '../storage/health.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import { holdSweeper } from '../storage/unneeded-objects.ts'
import type { Tx } from '../transact.ts'
import { grantFreePermits } from './permits.ts'

/**
 * Stores the result of a build: the deploy becomes ready, or failed when its artifact cannot be published, and its permit goes to the next
 * build.
 * Undefined when another run owns the deploy. May be repeated.
 * @param result null for stored files, which were not built
 */
export async function finishBuild(
  services: Services,
  run: runs.DeployRun,
  result: BuildResult | null,
): Promise<FinishedBuild | undefined> {
  const { cas, previewTokens, log, clock } = services
  const now = clock()
  const files = result?.outcome === 'built' ? (await readManifest(cas, result.manifest_sha256)).files : []
  const tokenHashOf = (previewId: string, generation: number) => hashPreviewToken(previewTokens(previewId, generation))
  return await withProjectOfDeploy(services, run.deploy_id, async (tx, project): Promise<FinishedBuild | undefined> => {
    const build = await runs.findBuildOfRun(tx, run)
    const isPreview = Boolean(build?.git_preview_id)
    if (isPreview) await lockSiteOf(tx, 'deploys', run.deploy_id)
    await holdSweeper(tx)
    const error = result && (await refusal(tx, services, project, run, result, files))
    const changed = error
      ? await runs.failDeploy(tx, run, { ...facts(result), error }, now)
      : await runs.readyDeploy(tx, run, result && builtOutcome(result), now)
    if (!changed) return finishedBefore(await runs.findDeployOfRun(tx, run))
    if (result) {
      await meter(tx, project.id, result, now)
      await addTotal(tx, changed, error ? 'failed' : 'built')
      await grantFreePermits(tx, services, { project_id: project.id, now })
    }
    const refused = error && result?.outcome === 'built' ? [...distinctHashes(files), result.manifest_sha256] : []
    await release(tx, build, refused, now)
    if (error || isPreview) await report(tx, changed)
    tx.afterCommit(() => log.info({ ...run, status: changed.status }, 'deploy built'))
    if (error) return { status: 'failed', error }
    // the build has written damaged objects again
    await markRepaired(tx, distinctHashes(files), now)
    await addBlobsOfDeploy(tx, project.id, files)
    return isPreview ? { status: 'ready', preview: await showBranchPreview(tx, changed, tokenHashOf, now) } : { status: 'ready' }
  })
}

/** Fails a deploy whose build has no result; its permit goes to the next build. May be repeated. */
export async function failBuild(
  services: Services,
  run: runs.DeployRun,
  { error, by }: { readonly error: string; readonly by: 'source' | 'platform' },
): Promise<void> {
  const { log, clock } = services
  await withProjectOfDeploy(services, run.deploy_id, async (tx, { id: project_id }) => {
    const now = clock()
    const build = await runs.findBuildOfRun(tx, run)
    const changed = await runs.failDeploy(tx, run, { error }, now)
    if (!changed) return
    await release(tx, build, [], now)
    await addTotal(tx, changed, by === 'platform' ? 'platform_failure' : 'failed')
    await grantFreePermits(tx, services, { project_id, now })
    // of a commit that was not fetched, only the push is known
    if (changed.git && isCommitId(changed.git.commit))
      await insertGitReport(tx, { deploy_id: changed.id, site_id: changed.site_id })
    await report(tx, changed)
    tx.afterCommit(() => log[by === 'platform' ? 'error' : 'info']({ ...run, error }, 'deploy failed'))
  })
}

/** Releases the objects that are not needed after a build: its source, and its files when they are refused. */
async function release(
  tx: Tx,
  build: Pick<DeployRow, 'source_sha256'> | undefined,
  refused: readonly string[],
  now: Date,
): Promise<void> {
  const hashes = [...refused, ...(build?.source_sha256 ? [build.source_sha256] : [])]
  await releaseObjects(tx, hashes, { now, published: false })
}

/** Reports the result of a git deploy to its forge. */
async function report(tx: Tx, { source_kind, site_id }: DeployRow): Promise<void> {
  if (source_kind === 'git') await queueReports(tx, site_id)
}

/** Why the artifact cannot be published; undefined when it can. */
async function refusal(
  tx: Tx,
  { cas, config }: Services,
  project: ProjectRow,
  { deploy_id }: runs.DeployRun,
  result: BuildResult,
  files: readonly ManifestEntry[],
): Promise<string | undefined> {
  if (result.outcome === 'failed') return result.error
  const added = await newBlobs(tx, project.id, files)
  const needed = [result.manifest_sha256, ...added.map((blob) => blob.sha256)]
  if ((await findMissing(cas, needed)).length > 0) return sweptAway
  const limit = config.plans[project.plan].storage_bytes
  if (limit === null) return undefined
  const bytes = (await storageBytes(tx, project.id, { deploy: deploy_id })) + bytesOf(added)
  return bytes > limit ? overStorageQuota(project.plan, limit) : undefined
}

const sweptAway = 'the files of this build were removed, because it took more than a day to publish them; deploy again'

const distinctHashes = (files: readonly ManifestEntry[]) => [...new Set(files.map((file) => file.sha256))]

const facts = ({ build_mode, build_seconds, skipped_paths }: BuildResult) => ({
  build_mode,
  skipped_paths: [...skipped_paths],
  build_seconds: build_mode === 'build' ? build_seconds : null,
})

function builtOutcome(result: BuildResult): runs.BuildOutcome {
  if (result.outcome !== 'built') throw new Error('a failed build has no artifact')
  const { manifest_sha256, file_count, total_bytes } = result
  return { ...facts(result), manifest_sha256, file_count, total_bytes }
}

/** The result that an earlier try of the same run returned, before its worker was lost. */
function finishedBefore(deploy: { status: string; error: string | null } | undefined): FinishedBuild | undefined {
  if (!deploy) return undefined
  return deploy.status === 'failed' ? { status: 'failed', error: deploy.error ?? '' } : { status: 'ready' }
}

/** A build that never began has no duration and is not counted. */
async function addTotal(tx: Tx, { started_at, finished_at }: DeployRow, outcome: BuildOutcomeName): Promise<void> {
  if (started_at && finished_at) await addBuildTotal(tx, outcome, Math.max(0, finished_at.getTime() - started_at.getTime()))
}

/** Charges the wall time of a build in whole minutes; publishing without commands is free. */
async function meter(tx: Tx, projectId: string, result: BuildResult, now: Date): Promise<void> {
  if (result.build_mode !== 'build' || result.build_seconds <= 0) return
  await addBuildMinutes(tx, projectId, now, Math.ceil(result.build_seconds / 60))
}
