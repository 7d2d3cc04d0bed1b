import { counted } from '../../core/amounts.ts'
import { isCommitId } from '../../core/git-remotes.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { overStorageQuota, type Plans } from '../../core/plans.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { hashPreviewToken, type PreviewTokens } from '../../infra/crypto/preview-tokens.ts'
import type { Db, Tx } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'
import { findTurn, type TurnState } from '../../services/builds/permits.ts'
import * as deploys from '../../services/deploys/deploys.ts'
import * as runs from '../../services/deploys/runs.ts'
import { lockSiteOfGitPreview } from '../../services/git/deploys.ts'
import { showGitPreview } from '../../services/previews/git-previews.ts'
import { lockProjectOfDeploy, type ProjectRow } from '../../services/projects/projects.ts'
import { addBuildMinutes, addBuildTotal } from '../../services/projects/usage.ts'
import { insertGitReport } from '../../services/reports/reports.ts'
import { addBlobsOfDeploy, bytesOf, newBlobs, storageBytes } from '../../services/storage/blobs.ts'
import { markRepaired } from '../../services/storage/health.ts'
import { releaseObjects } from '../../services/storage/released-objects.ts'
import { holdSweeper } from '../../services/storage/unneeded-objects.ts'
import { findBuildInput } from '../build-input.ts'
import type { Relay } from '../client.ts'
import type { BuildOutcomeName, BuildResult, DeployActivities, DeployRunInput, FinishedBuild } from '../contract.ts'
import { queueReports } from '../reports.ts'
import { giveTurns } from '../turns.ts'

export interface DeployActivityDeps {
  readonly db: Db
  readonly cas: Cas
  readonly plans: Plans
  readonly previewTokens: PreviewTokens
  /** How many builds of a project may run or wait for a slot at once. */
  readonly buildsPerProject: number
  readonly relay: Pick<Relay, 'wake'>
  readonly log: Logger
  readonly clock: () => Date
}

/** The steps of a deploy that PostgreSQL decides. Every one is a guarded update, so repeating it is harmless. */
export function createDeployActivities(deps: DeployActivityDeps): DeployActivities {
  const { db, cas, plans, previewTokens, buildsPerProject: cap, relay, log, clock } = deps
  const tokenHashOf = (previewId: string, generation: number) => hashPreviewToken(previewTokens(previewId, generation))
  return {
    async claimDeploy(run) {
      const claimed = await runs.claimDeploy(db, run, clock())
      if (!claimed) return undefined
      const { status, has_source, is_stored, ...work } = claimed
      const input = has_source ? await findBuildInput(db, plans, run.deploy_id) : undefined
      log.info({ ...run, site_id: work.site_id }, 'deploy claimed')
      if (status === 'ready') return { ...work, task: { kind: 'publish' } }
      if (input) return { ...work, task: { kind: 'build', input } }
      return { ...work, task: { kind: is_stored ? 'keep' : 'fetch' } }
    },

    async takeTurn(run) {
      const turn = await db.transaction().execute(async (tx) => {
        const project = await lockProjectOfDeploy(tx, run.deploy_id)
        if (!project) return undefined
        await giveTurns(tx, { id: project.id, cap }, clock(), run.deploy_id)
        return await findTurn(tx, run)
      })
      relay.wake()
      return turn && (turn.has_turn ? { granted: true } : { granted: false, waits_for: waitsFor(turn) })
    },

    async markBuilding(run) {
      if (await runs.markBuilding(db, run, clock())) log.info({ ...run }, 'build started')
    },

    async finishBuild(run, result) {
      const now = clock()
      const files = result?.outcome === 'built' ? (await readManifest(cas, result.manifest_sha256)).files : []
      const finished = await db.transaction().execute(async (tx): Promise<FinishedBuild | undefined> => {
        const project = await lockProjectOfDeploy(tx, run.deploy_id)
        if (!project) return undefined
        const isPreview = await lockSiteOfGitPreview(tx, run.deploy_id)
        await holdSweeper(tx)
        const error = result && (await refusal(tx, project, run, result, files))
        const source = await runs.findSource(tx, run)
        const changed = error
          ? await runs.failDeploy(tx, run, { ...facts(result), error }, now)
          : await runs.readyDeploy(tx, run, result && builtOutcome(result), now)
        if (!changed) return finishedBefore(await runs.findDeployOfRun(tx, run))
        if (result) {
          await meter(tx, project.id, result, now)
          await addTotal(tx, changed, error ? 'failed' : 'built')
          await giveTurns(tx, { id: project.id, cap }, now)
        }
        await release(tx, source, error === undefined ? [] : files, result)
        if (error || isPreview) await report(tx, changed)
        log.info({ ...run, status: changed.status }, 'deploy built')
        if (error) return { status: 'failed', error }
        // what was damaged was written again by the build
        await markRepaired(tx, distinctHashes(files), now)
        await addBlobsOfDeploy(tx, project.id, files)
        return isPreview ? { status: 'ready', preview: await showGitPreview(tx, changed, tokenHashOf, now) } : { status: 'ready' }
      })
      relay.wake()
      return finished
    },

    async failBuild(run, { error, by }) {
      await db.transaction().execute(async (tx) => {
        const project = await lockProjectOfDeploy(tx, run.deploy_id)
        const source = await runs.findSource(tx, run)
        const changed = project && (await runs.failDeploy(tx, run, { error }, clock()))
        if (!changed) return
        await release(tx, source)
        await addTotal(tx, changed, by === 'platform' ? 'platform_failure' : 'failed')
        await giveTurns(tx, { id: project.id, cap }, clock())
        // what the push said of its commit is all that is known of one that was not fetched
        if (changed.git && isCommitId(changed.git.commit))
          await insertGitReport(tx, { deploy_id: changed.id, site_id: changed.site_id })
        await report(tx, changed)
      })
      relay.wake()
      log[by === 'platform' ? 'error' : 'info']({ ...run, error }, 'deploy failed')
    },

    async publishDeploy({ deploy_id, attempt }) {
      const now = clock()
      const status = await db.transaction().execute(async (tx) => {
        const found = await deploys.lockSiteOfDeploy(tx, deploy_id)
        if (!found || found.deploy.attempt !== attempt) return undefined
        const { deploy, trashed } = found
        if (deploy.status === 'active' || deploy.status === 'superseded') return deploy.status
        if (deploy.status !== 'ready' || deploy.artifacts_purged) return undefined
        await report(tx, deploy)
        if (trashed || (await deploys.isOvertaken(tx, deploy))) {
          await deploys.supersedeDeploy(tx, deploy_id)
          return 'superseded'
        }
        await deploys.activateDeploy(tx, deploy, now)
        return 'active'
      })
      relay.wake()
      log.info({ deploy_id, status }, 'deploy published')
      return status
    },
  }

  /** Has removed what nobody needs once a build has ended: its source, and its files when they are refused. */
  async function release(
    tx: Tx,
    source: string | null,
    files: readonly ManifestEntry[] = [],
    result: BuildResult | null = null,
  ): Promise<void> {
    const hashes = files.map((file) => file.sha256)
    if (source !== null) hashes.push(source)
    if (files.length > 0 && result?.outcome === 'built') hashes.push(result.manifest_sha256)
    await releaseObjects(tx, hashes, { now: clock(), published: false })
  }

  /** Reports what becomes of a deploy from a repository to its forge. */
  async function report(tx: Tx, { source_kind, site_id }: deploys.DeployRow): Promise<void> {
    if (source_kind === 'git') await queueReports(tx, site_id)
  }

  /** Why the artifact cannot be published; undefined when it can. */
  async function refusal(
    tx: Tx,
    project: ProjectRow,
    { deploy_id }: DeployRunInput,
    result: BuildResult,
    files: readonly ManifestEntry[],
  ) {
    if (result.outcome === 'failed') return result.error
    const added = await newBlobs(tx, project.id, files)
    const needed = [result.manifest_sha256, ...added.map((blob) => blob.sha256)]
    if ((await findMissing(cas, needed)).length > 0) return sweptAway
    const limit = plans[project.plan].storage_bytes
    if (limit === null) return undefined
    const bytes = (await storageBytes(tx, project.id, { deploy: deploy_id })) + bytesOf(added)
    return bytes > limit ? overStorageQuota(project.plan, limit) : undefined
  }
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

/** The answer of an earlier try of the same run, whose record was lost with its worker. */
function finishedBefore(deploy: { status: string; error: string | null } | undefined): FinishedBuild | undefined {
  if (!deploy) return undefined
  return deploy.status === 'failed' ? { status: 'failed', error: deploy.error ?? '' } : { status: 'ready' }
}

function waitsFor({ is_fetch, earlier, first_earlier_seq, handed_out }: TurnState): string {
  if (earlier === 0) {
    if (is_fetch) return `the project has ${counted(handed_out, 'fetch', 'fetches')} running, as many as it may`
    return `the project has ${counted(handed_out, 'build')} running, as many as it may`
  }
  const more = earlier === 1 ? '' : ` and ${earlier - 1} more`
  return `waits for deploy ${first_earlier_seq}${more} of this site`
}

/** A build that never began has no duration and is not counted. */
async function addTotal(tx: Tx, { started_at, finished_at }: deploys.DeployRow, outcome: BuildOutcomeName): Promise<void> {
  if (started_at && finished_at) await addBuildTotal(tx, outcome, Math.max(0, finished_at.getTime() - started_at.getTime()))
}

/** Build wall time counts in whole minutes, publishing without commands not at all. */
async function meter(tx: Tx, projectId: string, result: BuildResult, now: Date): Promise<void> {
  if (result.build_mode !== 'build' || result.build_seconds <= 0) return
  await addBuildMinutes(tx, projectId, now, Math.ceil(result.build_seconds / 60))
}
