import type { ManifestEntry } from '../../core/manifest.ts'
import { overStorageQuota, type Plans, planTitle } from '../../core/plans.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { addBlobsOfDeploy, bytesOf, newBlobs, storageBytes } from '../../infra/db/blobs.ts'
import { findTurn, type TurnState } from '../../infra/db/build-turns.ts'
import type { Db, Tx } from '../../infra/db/database.ts'
import * as deploys from '../../infra/db/deploys.ts'
import { lockProjectOfDeploy, type ProjectRow } from '../../infra/db/projects.ts'
import { holdSweeper } from '../../infra/db/sweep.ts'
import { addBuildMinutes, addBuildTotal } from '../../infra/db/usage.ts'
import type { Logger } from '../../infra/log.ts'
import type { Relay } from '../client.ts'
import type { BuildOutcomeName, BuildResult, DeployActivities, FinishedBuild } from '../contract.ts'
import { giveTurns } from '../turns.ts'

export interface DeployActivityDeps {
  readonly db: Db
  readonly cas: Cas
  readonly plans: Plans
  /** How many builds of a project may run or wait for a slot at once. */
  readonly buildsPerProject: number
  readonly relay: Pick<Relay, 'wake'>
  readonly log: Logger
  readonly clock: () => Date
}

/** The steps of a deploy that PostgreSQL decides. Every one is a guarded update, so repeating it is harmless. */
export function createDeployActivities(deps: DeployActivityDeps): DeployActivities {
  const { db, cas, plans, buildsPerProject: cap, relay, log, clock } = deps
  return {
    async claimDeploy(run) {
      const claimed = await deploys.claimDeploy(db, run, clock())
      if (!claimed) return undefined
      const { status, plan, source_sha256, root_dir, ...work } = claimed
      const build = source_sha256 && {
        deploy_id: run.deploy_id,
        project_id: work.project_id,
        site_id: work.site_id,
        source_sha256,
        storage_bytes: plans[plan].storage_bytes,
        plan_title: planTitle(plan),
        root_dir,
      }
      log.info({ ...run, site_id: work.site_id }, 'deploy claimed')
      return { ...work, build: build || null, built: status === 'ready' }
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
      if (await deploys.markBuilding(db, run, clock())) log.info({ ...run }, 'build started')
    },

    async finishBuild(run, result) {
      const now = clock()
      const files = result?.outcome === 'built' ? (await readManifest(cas, result.manifest_sha256)).files : []
      const finished = await db.transaction().execute(async (tx): Promise<FinishedBuild | undefined> => {
        const project = await lockProjectOfDeploy(tx, run.deploy_id)
        if (!project) return undefined
        await holdSweeper(tx)
        const error = result && (await refusal(tx, project, result, files))
        const changed = error
          ? await deploys.failDeploy(tx, run, { ...facts(result), error }, now)
          : await deploys.readyDeploy(tx, run, result && builtOutcome(result), now)
        if (!changed) return finishedBefore(await deploys.findDeployOfRun(tx, run))
        if (result) {
          await meter(tx, project.id, result, now)
          await addTotal(tx, changed, error ? 'failed' : 'built')
          await giveTurns(tx, { id: project.id, cap }, now)
        }
        if (!error) await addBlobsOfDeploy(tx, project.id, files)
        log.info({ ...run, status: changed.status }, 'deploy built')
        return error ? { status: 'failed', error } : { status: 'ready' }
      })
      relay.wake()
      return finished
    },

    async failBuild(run, error) {
      await db.transaction().execute(async (tx) => {
        const project = await lockProjectOfDeploy(tx, run.deploy_id)
        const changed = project && (await deploys.failDeploy(tx, run, { error }, clock()))
        if (!changed) return
        await addTotal(tx, changed, 'platform_failure')
        await giveTurns(tx, { id: project.id, cap }, clock())
      })
      relay.wake()
      log.error({ ...run, error }, 'deploy failed')
    },

    async publishDeploy({ deploy_id, attempt }) {
      const now = clock()
      const status = await db.transaction().execute(async (tx) => {
        const found = await deploys.lockSiteOfDeploy(tx, deploy_id)
        if (!found || found.deploy.attempt !== attempt) return undefined
        const { deploy, trashed } = found
        if (deploy.status === 'active' || deploy.status === 'superseded') return deploy.status
        if (deploy.status !== 'ready' || deploy.artifacts_purged) return undefined
        if (trashed || (await deploys.isOvertaken(tx, deploy))) {
          await deploys.supersedeDeploy(tx, deploy_id)
          return 'superseded'
        }
        await deploys.activateDeploy(tx, deploy, now)
        return 'active'
      })
      log.info({ deploy_id, status }, 'deploy published')
      return status
    },
  }

  /** Why the artifact cannot be published; undefined when it can. */
  async function refusal(tx: Tx, project: ProjectRow, result: BuildResult, files: readonly ManifestEntry[]) {
    if (result.outcome === 'failed') return result.error
    const added = await newBlobs(tx, project.id, files)
    const needed = [result.manifest_sha256, ...added.map((blob) => blob.sha256)]
    if ((await findMissing(cas, needed)).length > 0) return sweptAway
    const limit = plans[project.plan].storage_bytes
    if (limit === null) return undefined
    const bytes = (await storageBytes(tx, project.id)) + bytesOf(added)
    return bytes > limit ? overStorageQuota(project.plan, limit) : undefined
  }
}

const sweptAway = 'the files of this build were removed, because it took more than a day to publish them; deploy again'

const facts = ({ build_mode, build_seconds, skipped_paths }: BuildResult) => ({
  build_mode,
  skipped_paths: [...skipped_paths],
  build_seconds: build_mode === 'build' ? build_seconds : null,
})

function builtOutcome(result: BuildResult): deploys.BuildOutcome {
  if (result.outcome !== 'built') throw new Error('a failed build has no artifact')
  const { manifest_sha256, file_count, total_bytes } = result
  return { ...facts(result), manifest_sha256, file_count, total_bytes }
}

/** The answer of an earlier try of the same run, whose record was lost with its worker. */
function finishedBefore(deploy: { status: string; error: string | null } | undefined): FinishedBuild | undefined {
  if (!deploy) return undefined
  return deploy.status === 'failed' ? { status: 'failed', error: deploy.error ?? '' } : { status: 'ready' }
}

function waitsFor({ earlier, first_earlier_seq, handed_out }: TurnState): string {
  if (earlier === 0) return `the project has ${handed_out} ${handed_out === 1 ? 'build' : 'builds'} running, as many as it may`
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
