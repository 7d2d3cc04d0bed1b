import type { BuildSettings } from '../core/build-plan.ts'
import type { TrustLevel } from '../core/build-trust.ts'
import type { BuildMode, DeployStatus, GitSource, SourceKind } from '../core/deploy.ts'
import { inlineCode } from '../core/inline-code.ts'
import type { SearchAttribute } from '../core/search-attributes.ts'

/** Task queues, by the resource that works on them: `control` has the database, `fetch` few processes that read repositories, `build` the sandboxes, `report` the patience for forges. */
export const queues = { control: 'control', fetch: 'fetch', build: 'build', report: 'report' } as const

/** Signals that workflows take. Each says "look again" or tells a fact; none is needed for a deploy to end well. */
export const signals = {
  /** An earlier build of the site or the project has ended: the build may have a permit. */
  turn: 'turn',
  /** A runner has begun the build. */
  buildStarted: 'buildStarted',
  /** What the workflow waits for has changed in PostgreSQL: restored, cancelled, verified, removed. */
  changed: 'changed',
} as const

/** A signal to send: the content of a row of `workflow_starts`, as a {@link WorkflowStart} is. */
export interface WorkflowSignal {
  readonly workflow_id: string
  readonly signal: (typeof signals)[keyof typeof signals]
  /** Starts the workflow with it when it does not run. */
  readonly start?: WorkflowStart
}

/** A workflow to start: the content of one `workflow_starts` row. Holds ids and names, never a secret. */
export interface WorkflowStart {
  readonly workflow_id: string
  /** The name of a workflow's function. */
  readonly type:
    | 'deploy'
    | 'expireTrashedSite'
    | 'switchSubdomain'
    | 'connectDomain'
    | 'issueCertificate'
    | 'sendMail'
    | 'reportToForge'
  readonly input: object
  /** One line of Markdown for the Temporal UI. */
  readonly summary: string
  /** Instants as RFC 3339. */
  readonly attributes: Readonly<Partial<Record<SearchAttribute, string>>>
}

export interface DeployInput {
  readonly deploy_id: string
  readonly attempt: number
}

/** How the workflow of a deploy ended. `stale`: another attempt or run owns the deploy. */
export type DeployOutcome = Extract<DeployStatus, 'active' | 'ready' | 'superseded' | 'failed'> | 'stale'

/** The result of the workflow, for those who look into Temporal. */
export interface DeployReport {
  readonly outcome: DeployOutcome
  /** The last step, as the details show it; of a failure the first line of its text. */
  readonly summary: string
}

/** Names one attempt of one deploy. */
export const deployWorkflowId = ({ deploy_id, attempt }: DeployInput) => `deploy:${deploy_id}:${attempt}`

/** The hourly cleaning of the storage; Temporal adds the instant to the id of each workflow. */
export const storageSweep = { schedule_id: 'schedule:sweep-storage', workflow_id: 'sweep-storage' } as const

/** Tells the workflow of a waiting build to ask for its permit. */
export const turnSignal = (deploy: DeployInput): WorkflowSignal => ({
  workflow_id: deployWorkflowId(deploy),
  signal: signals.turn,
})

/** The summary of a workflow may have so many bytes in UTF-8. */
const maxSummaryBytes = 200

/** A character can take four of the bytes of a summary. */
export const shortName = (name: string) => name.slice(0, 32)

export interface StartedDeploy {
  readonly deploy_id: string
  readonly attempt: number
  readonly project_id: string
  readonly site_id: string
  readonly site_name: string
  readonly source_kind: SourceKind
  readonly seq: number
  /** Of a git deploy: what is said of its commit so far, and its branch or preview. */
  readonly git?: GitSource | null
  readonly git_ref?: string | null | undefined
}

export function deployStart(deploy: StartedDeploy): WorkflowStart {
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

/** As much as fits; what comes from a repository is a stranger's text. */
function deploySummary({ site_name, seq, source_kind, git, git_ref }: StartedDeploy): string {
  const site = `**${shortName(site_name)}**`
  const plain = `${site} deploy ${seq} from ${source_kind}`
  if (!git_ref) return plain
  const from = `${site} ← git ${inlineCode(git ? `${git_ref}@${git.commit.slice(0, 7)}` : git_ref)}`
  const texts = [`${from} ${inlineCode(git?.message.slice(0, 60) ?? '')}`.trimEnd(), from, plain]
  return texts.find((text) => new TextEncoder().encode(text).length <= maxSummaryBytes) ?? plain
}

/** Activities of the control queue, implemented in `activities/deploys.ts`. Each may be repeated by the same run. */
export interface DeployActivities {
  /** Undefined when another attempt or run owns the deploy, or it has ended. */
  claimDeploy(run: DeployRunInput): Promise<ClaimedWork | undefined>
  /** Asks whether the build may go to the build queue. Undefined when the run has lost the deploy. */
  takeTurn(run: DeployRunInput): Promise<Turn | undefined>
  /** A runner has begun. Does nothing when the build has ended already. */
  markBuilding(run: DeployRunInput): Promise<void>
  /** What the deploy is afterwards; undefined when the run has lost it. */
  finishBuild(run: DeployRunInput, result: BuildResult | null): Promise<FinishedBuild | undefined>
  /** For what keeps a source from being built: it cannot be fetched, or the platform has a fault that retries did not mend. */
  failBuild(run: DeployRunInput, failure: BuildFailure): Promise<void>
  /** Publishes a ready deploy, unless a later one is live already. */
  publishDeploy(run: DeployRunInput): Promise<'active' | 'superseded' | undefined>
}

/** Activities of the control queue, implemented in `activities/retention.ts`. */
export interface RetentionActivities {
  /** Purges the inactive deploys of a site beyond what its plan keeps; answers how many. May be repeated. */
  applyRetention(input: { readonly site_id: string }): Promise<number>
}

/** Activities of the control queue, implemented in `activities/checks.ts`. */
export interface CheckActivities {
  /** Looks the files of a deploy through for recommendations, if that was asked for and not done yet; answers how many there are. May be repeated. */
  checkSite(input: { readonly deploy_id: string }): Promise<number>
}

export interface SweepInput {
  /** Share of all objects that may be removed at once, 0 to 1; an operator who has seen the refusal may raise it. */
  readonly max_share?: number
}

/** Activities of the control queue, implemented in `activities/storage.ts`. Each answers a line for operators and may be repeated. */
export interface StorageActivities {
  /** Purges deploys whose preview link has become too old. */
  purgeExpired(): Promise<string>
  /** Removes the logs of old builds. */
  removeOldLogs(): Promise<string>
  /** Gives up uploads that no deploy took, and what purges have left for readers that are behind. */
  dropUnusedBlobs(): Promise<string>
  /** Removes objects from the storage that no row needs. */
  sweepObjects(input: SweepInput): Promise<string>
}

/** How a build ends, as it is counted: `failed` is the source's fault. */
export const buildOutcomes = ['built', 'failed', 'platform_failure'] as const
export type BuildOutcomeName = (typeof buildOutcomes)[number]

/** `waits_for`: why the build has no permit yet, for operators. */
export type Turn = { readonly granted: true } | { readonly granted: false; readonly waits_for: string }

/** `preview`: whether the link of the deploy's preview shows it. */
export type FinishedBuild =
  | { readonly status: 'ready'; readonly preview?: 'shown' | 'closed' | 'overtaken' }
  | { readonly status: 'failed'; readonly error: string }

export interface BuildFailure {
  readonly error: string
  /** Whose fault it is. */
  readonly by: 'source' | 'platform'
}

export interface DeployRunInput extends DeployInput {
  readonly run_id: string
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
  /** True when the files are still to be looked through for recommendations. */
  readonly to_check: boolean
}

/** What is to be done until the deploy is ready. */
export type DeployTask =
  /** Nothing: an earlier attempt has built it. */
  | { readonly kind: 'publish' }
  /** Its files are stored already. */
  | { readonly kind: 'keep' }
  | { readonly kind: 'build'; readonly input: BuildInput }
  /** Its source is in a repository; what to build is known when that is here. */
  | { readonly kind: 'fetch' }

/** What the build queue gets: ids, hashes and limits. The runner has no database, so everything it needs is here. */
export interface BuildInput {
  readonly deploy_id: string
  readonly project_id: string
  readonly site_id: string
  /** The source archive in the CAS. */
  readonly source_sha256: string
  /** Inflated source and artifact may each have at most this many bytes; null is unlimited. */
  readonly storage_bytes: number | null
  /** The plan's title, for messages about its limits. */
  readonly plan_title: string
  /** Folder of the source whose package.json is built; null is the root. */
  readonly root_dir: string | null
  /** Which packages of other builds it may get, and hand its own on to. */
  readonly trust: TrustLevel
  /** What the git connection of the site says of builds; absent when the source is not from it. */
  readonly settings?: BuildSettings
  /** Bytes of the log that were written before the build. */
  readonly log_bytes?: number
}

/** One try to fetch the source of a deploy. */
export interface FetchInput extends DeployRunInput {
  /** From 1 on. */
  readonly tries: number
}

/** A repository that cannot be fetched is a normal result, with a text for its owner. `away`: the deploy waits without a permit. */
export type FetchResult =
  | { readonly outcome: 'away'; readonly error: string; readonly retry_after_ms: number }
  | { readonly outcome: 'fetched'; readonly input: BuildInput; readonly git: GitSource; readonly facts: string }
  | { readonly outcome: 'failed'; readonly error: string }

/** Activities of the fetch queue, implemented in `activities/fetch-repository.ts`. */
export interface FetchActivities {
  /** Makes the head of the deploy's ref its source. Undefined when the run has lost the deploy. May be repeated. */
  fetchRepository(input: FetchInput): Promise<FetchResult | undefined>
}

/** What a build leaves in the CAS. A failure of the user's source is a normal result; a thrown error is the platform's fault and retried. */
export type BuildResult = {
  readonly build_mode: BuildMode
  /** Wall seconds of the commands; 0 when none ran. */
  readonly build_seconds: number
  readonly skipped_paths: readonly string[]
} & (
  | {
      readonly outcome: 'built'
      /** A `Manifest` as JSON in the CAS; every file of it is stored. */
      readonly manifest_sha256: string
      readonly file_count: number
      readonly total_bytes: number
    }
  | {
      readonly outcome: 'failed'
      /** Text for the user: what went wrong, what to do, the last lines of the log. */
      readonly error: string
    }
)

/** Activities of the build queue, implemented in `runner/`. */
export interface BuildActivities {
  buildSource(input: BuildInput): Promise<BuildResult>
}
