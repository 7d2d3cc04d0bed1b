import type { DeployStatus, GitSource, SourceKind } from '../../core/deploy.ts'
import { inlineCode } from '../../core/inline-code.ts'
import type { BuildInput, BuildResult } from './builds.ts'
import { shortName, signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface DeployInput {
  readonly deploy_id: string
  readonly attempt: number
}

export interface DeployRunInput extends DeployInput {
  readonly run_id: string
}

/** How the workflow of a deploy ended. `cancelled`: the deploy has failed for that reason. `stale`: another attempt or run owns the deploy. */
export type DeployOutcome = Extract<DeployStatus, 'active' | 'ready' | 'superseded' | 'failed'> | 'cancelled' | 'stale'

/** The result of the workflow, for operators in the Temporal UI. */
export interface DeployReport {
  readonly outcome: DeployOutcome
  /** The last step as the details show it, or the first line of an error. */
  readonly summary: string
}

/** Names one attempt of one deploy. */
export const deployWorkflowId = ({ deploy_id, attempt }: DeployInput) => `deploy:${deploy_id}:${attempt}`

/** Tells the workflow of a waiting build to ask for its permit. */
export const permitSignal = (deploy: DeployInput): WorkflowSignal<never> => ({
  workflow_id: deployWorkflowId(deploy),
  signal: signals.permit,
})

/** Tells the workflow of a deploy that it was cancelled. */
export const cancelSignal = (deploy: DeployInput): WorkflowSignal<never> => ({
  workflow_id: deployWorkflowId(deploy),
  signal: signals.cancel,
})

export interface StartedDeploy {
  readonly deploy_id: string
  readonly attempt: number
  readonly project_id: string
  readonly site_id: string
  readonly site_name: string
  readonly source_kind: SourceKind
  readonly seq: number
  /** What is known of the commit of a git deploy so far, and its branch or preview. */
  readonly git?: GitSource | null
  readonly git_ref?: string | null | undefined
}

export function deployStart(deploy: StartedDeploy): WorkflowStart<'deploy', DeployInput> {
  const { deploy_id, attempt, source_kind, git_ref } = deploy
  return {
    workflow_id: deployWorkflowId(deploy),
    type: 'deploy',
    input: { deploy_id, attempt },
    summary: deploySummary(deploy),
    attributes: {
      ProjectId: deploy.project_id,
      SiteId: deploy.site_id,
      SiteName: deploy.site_name,
      DeployId: deploy_id,
      DeployStatus: 'queued',
      Trigger: source_kind === 'git' ? 'git' : 'api',
      ...(git_ref && { GitRef: git_ref }),
    },
  }
}

/** Temporal's limit of a summary, in bytes of UTF-8. */
const maxSummaryBytes = 200

/** Says as much as fits. Texts from a repository are untrusted, so they become inline code. */
function deploySummary({ site_name, seq, source_kind, git, git_ref }: StartedDeploy): string {
  const site = `**${shortName(site_name)}**`
  const plain = `${site} deploy ${seq} from ${source_kind}`
  if (!git_ref) return plain
  const from = `${site} ← git ${inlineCode(git ? `${git_ref}@${git.commit.slice(0, 7)}` : git_ref)}`
  const texts = [`${from} ${inlineCode(git?.message.slice(0, 60) ?? '')}`.trimEnd(), from, plain]
  return texts.find((text) => new TextEncoder().encode(text).length <= maxSummaryBytes) ?? plain
}

export interface ClaimedWork {
  readonly project_id: string
  readonly site_id: string
  readonly site_name: string
  readonly seq: number
  readonly source_kind: string
  readonly activate: boolean
  /** The branch or preview of a git deploy, as far as known. */
  readonly git_ref: string | null
  readonly task: DeployTask
  /** Whether the files are still to be checked for recommendations. */
  readonly to_check: boolean
}

/** The outcome of publishing a ready deploy: it is live, or a later one is. Undefined when the run has lost the deploy. */
export type Publication = 'active' | 'superseded' | undefined

/** The work until the deploy is ready. */
export type DeployTask =
  /** There is none, because its files were stored already: the claim has published it too, if it is to be published. */
  | { readonly kind: 'none'; readonly outcome: Publication | 'ready' }
  | { readonly kind: 'build'; readonly input: BuildInput }
  /** Its source is still in a repository. */
  | { readonly kind: 'fetch' }

/** `preview`: whether the preview link of its branch shows the deploy. */
export type FinishedBuild = { readonly status: 'ready'; readonly preview?: 'shown' | 'closed' | 'overtaken' } | FailedBuild

export interface FailedBuild {
  readonly status: 'failed'
  readonly error: string
  readonly cancelled: boolean
}

export interface BuildFailure {
  readonly error: string
  /** Where the fault lies. */
  readonly by: 'source' | 'platform' | 'operator'
}

/** Why a build failed that was cancelled in Temporal. */
export const cancelledByOperator = 'the operator cancelled the build; deploy again'

/** Activities of the control queue, implemented in `activities/deploys.ts`. Each may be repeated by the same run. */
export interface DeployActivities {
  /**
   * Undefined when another attempt or run owns the deploy, or it has failed. When there is nothing to build, the deploy is published at once:
   * each further step would make visitors wait for another 5 ms.
   */
  claimDeploy(run: DeployRunInput): Promise<ClaimedWork | undefined>
  /** Requests the permit to fetch or build. Undefined when the run has lost the deploy. */
  requestPermit(run: DeployRunInput): Promise<BuildPermit | undefined>
  /** Marks the deploy as building, because a runner has begun. Does nothing when the build has ended already. */
  markBuilding(run: DeployRunInput): Promise<void>
  /** Stores the result, and returns the new state of the deploy; undefined when the run has lost it. */
  finishBuild(run: DeployRunInput, result: BuildResult): Promise<FinishedBuild | undefined>
  /**
   * Fails the deploy without a build: its source cannot be fetched, a fault of the platform persists after all retries, or it was cancelled.
   * Returns how the deploy has ended; undefined when the run has lost it.
   */
  failBuild(run: DeployRunInput, failure: BuildFailure): Promise<FinishedBuild | undefined>
  /** Returns why a deploy has failed that the run does not own. */
  findFailure(deploy: DeployInput): Promise<FailedBuild | undefined>
  /** Publishes a ready deploy, unless a later one is live already. */
  publishDeploy(run: DeployRunInput): Promise<Publication>
}

/** Activities of the control queue, implemented in `activities/retention.ts`. */
export interface RetentionActivities {
  /** Purges the inactive deploys of a site beyond those that its plan keeps; returns their number. May be repeated. */
  applyRetention(input: { readonly site_id: string }): Promise<number>
}

/** Activities of the control queue, implemented in `activities/checks.ts`. */
export interface CheckActivities {
  /** Checks the files of a deploy for recommendations, if that was requested and not done yet; returns their number. May be repeated. */
  checkSite(input: { readonly deploy_id: string }): Promise<number>
}

/** `waits_for` tells operators why the build has no permit yet. */
export type BuildPermit = { readonly granted: true } | { readonly granted: false; readonly waits_for: string }
