import { HandlerUnfinishedPolicy } from '@temporalio/common'
import {
  ActivityFailure,
  CancellationScope,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  sleep,
  TemporalFailure,
  workflowInfo,
} from '@temporalio/workflow'
import type { BuildActivities, BuildInput, BuildResult } from '../contract/builds.ts'
import {
  type BuildFailure,
  type CheckActivities,
  type ClaimedWork,
  cancelledByOperator,
  type DeployActivities,
  type DeployInput,
  type DeployReport,
  type DeployRunInput,
  type DeployTask,
  type FailedBuild,
  type FinishedBuild,
  type Publication,
  type RetentionActivities,
} from '../contract/deploys.ts'
import type { FetchActivities } from '../contract/fetches.ts'
import { queues, signals } from '../contract/messages.ts'
import { causeOf } from './cause-of.ts'
import { createDeployProgress, type DeployProgress, firstLine } from './deploy-progress.ts'
import { timeNow } from './progress.ts'
import { createSignalFlag } from './signal-flag.ts'

/** A step of a few milliseconds in PostgreSQL, retried until PostgreSQL answers. */
const step = (summary: string) =>
  proxyLocalActivities<DeployActivities>({
    summary,
    startToCloseTimeout: '15s',
    retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '5s' },
  })
const { claimDeploy } = step('claim the deploy, if no other run owns it, and publish it if its files are stored')
const { requestPermit } = step('request a permit: one build of a site at a time, a few of a project')
const { markBuilding } = step('queued → building: a runner has begun')
const { finishBuild } = step('building → ready or failed, within the storage quota')
const { failBuild } = step('→ failed: the repository or the platform is at fault, or it was cancelled')
const { findFailure } = step('why the deploy has failed, as another run or nobody owns it')
const { publishDeploy } = step('ready → active, unless a later deploy is live')

const { buildSource } = proxyActivities<BuildActivities>({
  taskQueue: queues.build,
  // the runner ends a build by itself long before; this bounds a runner that hangs
  startToCloseTimeout: '2h',
  heartbeatTimeout: '10s',
  // a cancelled build says how long it took, and the run ends when nothing of it is left
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 4 },
})

const { fetchRepository } = proxyActivities<FetchActivities>({
  taskQueue: queues.fetch,
  startToCloseTimeout: '3m',
  heartbeatTimeout: '10s',
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  // retries faults of the platform only: a server that is away is a result
  retry: { initialInterval: '4s', maximumInterval: '1m' },
})

// the steps after publishing may fail, because the deploy is live
const { applyRetention } = proxyLocalActivities<RetentionActivities>({
  summary: 'purge the deploys that the plan does not keep',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '200ms', maximumAttempts: 5 },
})
const { checkSite } = proxyActivities<CheckActivities>({
  summary: 'check the files for recommendations',
  startToCloseTimeout: '2m',
  retry: { initialInterval: '1s', maximumAttempts: 3 },
})

const cancelSignal = defineSignal(signals.cancel)
const buildStartedSignal = defineSignal<[{ readonly attempt: number }]>(signals.buildStarted)
const firstPermitPauseMs = 60_000
const maxPermitPauseMs = 600_000

/** Takes a deploy from `queued` to `active` (or `ready`, when it is not to be published). */
export async function deploy(input: DeployInput): Promise<DeployReport> {
  const run = { ...input, run_id: workflowInfo().runId }
  const progress = createDeployProgress(run)
  const building = new CancellationScope()
  setHandler(cancelSignal, () => building.cancel(), { description: 'The deploy was cancelled: end what runs.' })
  const work = await claimDeploy(run)
  if (!work) return await lost(run, progress)
  progress.claimed(work)

  const { task } = work
  if (task.kind === 'none') {
    const { outcome } = task
    return await CancellationScope.nonCancellable(() => conclude(run, work, outcome, progress))
  }
  const finished = await building.run(() => build(run, work, task, progress))
  if (!finished) return await lost(run, progress)
  if (finished.status === 'failed') return await failed(work, finished, progress)
  if (finished.preview) progress.previewUpdated(finished.preview)
  // a cancellation comes too late from here on
  return await CancellationScope.nonCancellable(async () =>
    conclude(run, work, work.activate ? await publishDeploy(run) : 'ready', progress),
  )
}

/** Sources of failed deploys are kept for retries, but not all of them. */
async function failed(work: ClaimedWork, failure: FailedBuild, progress: DeployProgress): Promise<DeployReport> {
  if (work.source_kind !== 'git') await CancellationScope.nonCancellable(() => purgeOld(work, progress))
  return progress.failed(failure)
}

/** The run does not own the deploy: it was cancelled before it began, its site was removed, or another run works on it. */
async function lost(run: DeployRunInput, progress: DeployProgress): Promise<DeployReport> {
  const failure = await CancellationScope.nonCancellable(() => findFailure(run))
  return failure ? progress.failed(failure) : progress.end('stale')
}

async function build(
  run: DeployRunInput,
  work: ClaimedWork,
  task: Exclude<DeployTask, { kind: 'none' }>,
  progress: DeployProgress,
): Promise<FinishedBuild | undefined> {
  try {
    const source = task.kind === 'build' ? task : await fetchSource(run, work, progress)
    if (!source) return undefined
    if ('error' in source) return await fail(run, { error: source.error, by: 'source' })
    if (!(await waitForPermit(run, progress))) return undefined
    const result = await buildOnRunner(run, work, source.input, progress)
    if (result.outcome === 'built') progress.built(result)
    return await CancellationScope.nonCancellable(() => finishBuild(run, result))
  } catch (error) {
    // a run that cannot go on returns its permit
    return await fail(run, failureOf(error))
  }
}

function fail(run: DeployRunInput, failure: BuildFailure): Promise<FinishedBuild | undefined> {
  return CancellationScope.nonCancellable(() => failBuild(run, failure))
}

/** Fetches the source: what to build, or why it cannot be fetched. While the repository is away, the deploy holds no permit. */
async function fetchSource(run: DeployRunInput, work: ClaimedWork, progress: DeployProgress) {
  const options = {
    summary: `fetch the repository of ${work.site_name}, deploy ${work.seq}`,
    priority: { fairnessKey: work.project_id },
  }
  for (let tries = 1; ; tries++) {
    if (!(await waitForPermit(run, progress))) return undefined
    progress.fetches(tries)
    const result = await fetchRepository.executeWithOptions(options, [{ ...run, tries }])
    if (result?.outcome === 'fetched') progress.fetched(result)
    if (result?.outcome !== 'away') return result
    progress.repositoryIsAway(result, tries)
    await sleep(result.retry_after_ms, { summary: `try ${tries + 1} to fetch the repository` })
  }
}

/** PostgreSQL grants permits and sends a signal with each; repeated requests only make up for a lost signal. */
async function waitForPermit(run: DeployRunInput, progress: DeployProgress): Promise<boolean> {
  const granted = createSignalFlag(signals.permit, 'An earlier build has ended: request the permit again.')
  const since = timeNow()
  for (let pauseMs = firstPermitPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPermitPauseMs)) {
    granted.lower()
    const permit = await requestPermit(run)
    if (!permit) return false
    if (permit.granted) return true
    progress.waitsForPermit(since, permit.waits_for)
    await granted.wait(pauseMs, permit.waits_for)
  }
}

async function buildOnRunner(
  run: DeployRunInput,
  work: ClaimedWork,
  input: BuildInput,
  progress: DeployProgress,
): Promise<BuildResult> {
  let over = false
  async function begin({ attempt }: { readonly attempt: number }): Promise<void> {
    if (over) return
    progress.buildStarted(attempt)
    try {
      await markBuilding(run)
    } catch (error) {
      // the result of the build says as well that it has begun
      if (!(error instanceof TemporalFailure)) throw error
    }
  }
  setHandler(buildStartedSignal, (started) => CancellationScope.nonCancellable(() => begin(started)), {
    description: 'A runner has begun the build.',
    unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
  })
  progress.waitsForSlot()
  try {
    const options = {
      summary: `build ${work.site_name}, deploy ${work.seq}`,
      // the queue serves projects in rotation, regardless of their plan and of how many builds they have in it
      priority: { fairnessKey: input.project_id },
    }
    return await buildSource.executeWithOptions(options, [input])
  } finally {
    over = true
  }
}

/** Does what follows when a deploy is ready, and published if it is to be published. */
async function conclude(
  run: DeployRunInput,
  work: ClaimedWork,
  outcome: Publication | 'ready',
  progress: DeployProgress,
): Promise<DeployReport> {
  if (outcome !== 'active' && outcome !== 'ready') return progress.end(outcome ?? 'stale')
  if (outcome === 'active') progress.published()
  // pushes to a preview create deploys endlessly
  if (outcome === 'active' || work.source_kind === 'git') await purgeOld(work, progress)
  await recommend(run, work, progress)
  return progress.end(outcome)
}

async function purgeOld({ site_id }: ClaimedWork, progress: DeployProgress): Promise<void> {
  try {
    progress.purged(await applyRetention({ site_id }))
  } catch (error) {
    progress.notPurged(error)
  }
}

async function recommend({ deploy_id }: DeployRunInput, work: ClaimedWork, progress: DeployProgress): Promise<void> {
  if (!work.to_check) return
  try {
    progress.checked(await checkSite({ deploy_id }))
  } catch (error) {
    progress.notChecked(error)
  }
}

/** A deploy that its owner has cancelled has failed already, with a text of its own. */
function failureOf(error: unknown): BuildFailure {
  if (isCancellation(error)) return { error: cancelledByOperator, by: 'operator' }
  // the failure of a local activity has no activity around it
  if (!(error instanceof TemporalFailure)) throw error
  const activity = error instanceof ActivityFailure ? error.activityType : undefined
  const step = slowSteps[activity ?? ''] ?? 'a step of the platform'
  const cause = firstLine(causeOf(error))
  return { error: `${step} failed (${cause}); deploy again, and tell the operator if it repeats`, by: 'platform' }
}

/** The steps that are not of a few milliseconds, in texts for the owner of a deploy. */
const slowSteps: Readonly<Record<string, string>> = {
  fetchRepository: 'fetching the repository',
  buildSource: 'the build machine',
}
