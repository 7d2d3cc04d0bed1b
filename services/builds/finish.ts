import type { ManifestEntry } from '../../core/manifest.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import type { BuildOutcomeName, BuildResult } from '../../workflows/contract/builds.ts'
import {
  type BuildFailure,
  cancelledByOperator,
  type DeployInput,
  type FailedBuild,
  type FinishedBuild,
} from '../../workflows/contract/deploys.ts'
import { publishReady } from '../deploys/activate.ts'
import { recordFailure, recordSuccess } from '../deploys/announcements.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import * as runs from '../deploys/runs.ts'
import { transactActivation } from '../deploys/superseded-assets.ts'
import { bumpPermanentLinks } from '../feeds/routes.ts'
import { showBranchPreview } from '../previews/branch-previews.ts'
import { type ProjectRow, withProjectOfDeploy } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { addBlobsOfDeploy, bytesOf, newBlobs } from '../storage/blobs.ts'
import { markRepaired } from '../storage/health.ts'
import { makeRoom, overQuota } from '../storage/quota.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import { keepObjects } from '../storage/stored-objects.ts'
import type { Tx } from '../transact.ts'
import { addTotal, meter, releaseSource, reportEnd, settleFailure } from './endings.ts'
import { grantFreePermits } from './permits.ts'

/**
 * Stores the result of a build: the deploy becomes ready, or failed when its artifact cannot be published, and its permit goes to the next
 * build.
 * Undefined when another run owns the deploy. May be repeated.
 */
export async function finishBuild(
  services: Services,
  run: runs.DeployRun,
  result: BuildResult,
): Promise<FinishedBuild | undefined> {
  const { cas, previewTokens, log, clock } = services
  const now = clock()
  const files = result.outcome === 'built' ? (await readManifest(cas, result.manifest_sha256)).files : []
  const tokenHashOf = (previewId: string, generation: number) => hashPreviewToken(previewTokens(previewId, generation))
  return await withProjectOfDeploy(services, run.deploy_id, async (tx, project): Promise<FinishedBuild | undefined> => {
    const build = await runs.findBuildOfRun(tx, run)
    const isPreview = Boolean(build?.git_preview_id)
    if (isPreview) await lockSiteOf(tx, 'deploys', run.deploy_id)
    const error = await refusal(tx, services, project, run, result, files)
    const changed = error
      ? await runs.failDeploy(tx, run, { ...facts(result), error, cancelled: result.outcome === 'cancelled' }, now)
      : await runs.readyDeploy(tx, run, builtOutcome(result), now)
    if (!changed) return await finishedBefore(tx, services, run, result, files)
    await meter(tx, project.id, result, now)
    await addTotal(tx, changed, result.outcome === 'cancelled' ? 'cancelled' : error ? 'failed' : 'built')
    await grantFreePermits(tx, services, { project_id: project.id, now })
    await releaseSource(tx, changed, build, error ? objectsOf(result, files) : [], now)
    if (error || isPreview) await reportEnd(tx, changed)
    if (error) await recordFailure(tx, services, changed, now)
    // the success of another deploy is that it is published
    else if (!changed.activate) await recordSuccess(tx, changed, now)
    tx.afterCommit(() => log.info({ ...run, status: changed.status }, 'deploy built'))
    if (error) return { status: 'failed', error, cancelled: changed.cancelled }
    // the build has written damaged objects again
    await markRepaired(tx, distinctHashes(files), now)
    await addBlobsOfDeploy(tx, project.id, files)
    const preview = isPreview ? await showBranchPreview(tx, changed, tokenHashOf, now) : undefined
    await bumpPermanentLinks(tx, changed.site_id)
    return { status: 'ready', ...(preview && { preview }) }
  })
}

/**
 * Makes a deploy of stored files ready, and live if it is to be published, in one transaction: its blobs count for the project since it was
 * accepted, so there is nothing to refuse. Undefined when another run owns the deploy.
 */
export function finishStored(services: Services, run: runs.DeployRun): Promise<'active' | 'superseded' | 'ready' | undefined> {
  const { log, clock } = services
  return transactActivation(services, run.deploy_id, async (tx, retain) => {
    const site = await lockSiteOf(tx, 'deploys', run.deploy_id)
    const deploy = site && (await runs.readyDeploy(tx, run, null, clock()))
    if (!deploy) return undefined
    tx.afterCommit(() => log.info({ ...run, status: deploy.status }, 'deploy ready'))
    const outcome = deploy.activate ? await publishReady(tx, services, { deploy, site, retain }) : 'ready'
    if (outcome === 'ready') await recordSuccess(tx, deploy, clock())
    // going live has given the routes their next version
    if (outcome !== 'active') await bumpPermanentLinks(tx, deploy.site_id)
    return outcome
  })
}

/** Fails a deploy whose build has no result; its permit goes to the next build. Returns how the deploy has ended. May be repeated. */
export async function failBuild(
  services: Services,
  run: runs.DeployRun,
  { error, by }: BuildFailure,
): Promise<FinishedBuild | undefined> {
  const { log, clock } = services
  return await withProjectOfDeploy(services, run.deploy_id, async (tx) => {
    const now = clock()
    const before = await runs.findBuildOfRun(tx, run)
    const changed = await runs.failDeploy(tx, run, { error, cancelled: by === 'operator' }, now)
    if (!changed) return endOf(await runs.findDeployOfRun(tx, run))
    await settleFailure(tx, services, changed, { before, outcome: failures[by], now })
    tx.afterCommit(() => log[by === 'platform' ? 'error' : 'info']({ ...run, error }, 'deploy failed'))
    return endOf(changed)
  })
}

/** How metrics count a failure. */
const failures = { source: 'failed', platform: 'platform_failure', operator: 'cancelled' } as const satisfies Record<
  BuildFailure['by'],
  BuildOutcomeName
>

/** Returns why a deploy has failed that the run does not own; undefined when it has not, or another attempt owns it. */
export async function findFailure({ db }: Services, deploy: DeployInput): Promise<FailedBuild | undefined> {
  const end = endOf(await runs.findDeployOfAttempt(db, deploy))
  return end?.status === 'failed' ? end : undefined
}

/** Why the artifact cannot be published; undefined when it can. */
async function refusal(
  tx: Tx,
  services: Services,
  project: ProjectRow,
  { deploy_id }: runs.DeployRun,
  result: BuildResult,
  files: readonly ManifestEntry[],
): Promise<string | undefined> {
  if (result.outcome === 'failed') return result.error
  if (result.outcome === 'cancelled') return cancelledByOperator
  const added = await newBlobs(tx, project.id, files)
  const needed = [result.manifest_sha256, ...added.map((blob) => blob.sha256)]
  if (!(await keepObjects(tx, services, needed))) return sweptAway
  const room = { addedBytes: bytesOf(added), deploy: deploy_id, needed: distinctHashes(files) }
  return (await makeRoom(tx, services, project, room)) ? undefined : overQuota(services, project)
}

const sweptAway = 'the files of this build were removed, because it took more than a day to publish them; deploy again'

const distinctHashes = (files: readonly ManifestEntry[]) => [...new Set(files.map((file) => file.sha256))]

const facts = ({ build_mode, build_seconds, skipped_paths }: BuildResult) => ({
  build_mode,
  skipped_paths: [...skipped_paths],
  build_seconds: build_mode === 'build' ? build_seconds : null,
})

function builtOutcome(result: BuildResult): runs.BuildOutcome {
  if (result.outcome !== 'built') throw new Error(`a ${result.outcome} build has no artifact`)
  const { manifest_sha256, file_count, total_bytes } = result
  return { ...facts(result), manifest_sha256, file_count, total_bytes }
}

/**
 * The result that an earlier try of the same run stored, before its worker was lost, or a cancellation while the build ran: its facts are added
 * once, and its files are released.
 */
async function finishedBefore(
  tx: Tx,
  { clock }: Services,
  run: runs.DeployRun,
  result: BuildResult,
  files: readonly ManifestEntry[],
): Promise<FinishedBuild | undefined> {
  const cancelled = await runs.addFactsOfCancelled(tx, run, facts(result))
  if (cancelled) {
    const now = clock()
    await meter(tx, cancelled.project_id, result, now)
    await releaseObjects(tx, objectsOf(result, files), { now, published: false })
  }
  return endOf(await runs.findDeployOfRun(tx, run))
}

/** The objects that a build has stored. */
const objectsOf = (result: BuildResult, files: readonly ManifestEntry[]) =>
  result.outcome === 'built' ? [...distinctHashes(files), result.manifest_sha256] : []

/** The state of a deploy for its workflow. */
function endOf(deploy: Pick<DeployRow, 'status' | 'error' | 'cancelled'> | undefined): FinishedBuild | undefined {
  if (!deploy || deploy.status === 'queued' || deploy.status === 'building') return undefined
  if (deploy.status !== 'failed') return { status: 'ready' }
  return { status: 'failed', error: deploy.error ?? '', cancelled: deploy.cancelled }
}
