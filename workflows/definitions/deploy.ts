import { HandlerUnfinishedPolicy } from '@temporalio/common'
import {
  ActivityFailure,
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import { counted } from '../../core/amounts.ts'
import { inlineCode } from '../../core/inline-code.ts'
import type { BuildActivities, BuildInput, BuildResult } from '../contract/builds.ts'
import type {
  BuildFailure,
  CheckActivities,
  ClaimedWork,
  DeployActivities,
  DeployInput,
  DeployReport,
  DeployRunInput,
  DeployTask,
  FinishedBuild,
  RetentionActivities,
} from '../contract/deploys.ts'
import type { FetchActivities, FetchResult } from '../contract/fetches.ts'
import { queues, signals } from '../contract/messages.ts'
import { causeOf } from './cause-of.ts'
import { createStory, type Story, tellError, timeNow } from './story.ts'

/** A step of a few milliseconds in PostgreSQL, repeated until it answers. */
const step = (summary: string) =>
  proxyLocalActivities<DeployActivities>({
    summary,
    startToCloseTimeout: '15s',
    retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '5s' },
  })
const { claimDeploy } = step('take the deploy, if no other run owns it')
const { takeTurn } = step('ask for a permit: one build of a site at a time, a few of a project')
const { markBuilding } = step('queued → building: a runner has begun')
const { finishBuild } = step('building → ready or failed, within the storage quota')
const { failBuild } = step('→ failed: the repository or the platform is at fault, or the operator cancelled it')
const { publishDeploy } = step('ready → active, unless a later deploy is live')

const { buildSource } = proxyActivities<BuildActivities>({
  taskQueue: queues.build,
  // the runner ends a build by itself long before; this bounds a runner that hangs
  startToCloseTimeout: '2h',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 4 },
})

const { fetchRepository } = proxyActivities<FetchActivities>({
  taskQueue: queues.fetch,
  startToCloseTimeout: '3m',
  heartbeatTimeout: '10s',
  // for faults of the platform: a server that is away is a result
  retry: { initialInterval: '4s', maximumInterval: '1m' },
})

// what follows a publication may fail: the deploy is live
const { applyRetention } = proxyLocalActivities<RetentionActivities>({
  summary: 'purge what the plan does not keep',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '200ms', maximumAttempts: 5 },
})
const { checkSite } = proxyActivities<CheckActivities>({
  summary: 'look the files through for recommendations',
  startToCloseTimeout: '2m',
  retry: { initialInterval: '1s', maximumAttempts: 3 },
})

const permitSignal = defineSignal(signals.permit)
const buildStartedSignal = defineSignal<[{ readonly attempt: number }]>(signals.buildStarted)
const firstTurnPauseMs = 60_000
const maxTurnPauseMs = 600_000

const lost = '➖ another run owns this deploy, or it has ended'

/** Takes a deploy from `queued` to `active` (or `ready`, when publishing was not asked for). */
export async function deploy(input: DeployInput): Promise<DeployReport> {
  const run = { ...input, run_id: workflowInfo().runId }
  const story = createStory()
  const work = await claimDeploy(run)
  if (!work) return story.end('stale', lost)
  story.about(titleOf(work))

  if (work.task.kind !== 'publish') {
    const finished = work.task.kind === 'keep' ? await keepFiles(run, story) : await build(run, work, work.task, story)
    if (!finished) return story.end('stale', lost)
    if (finished.status === 'failed') {
      const { summary, rest } = tellError(finished.error)
      return story.end('failed', summary, [...rest, whereTheLogIs(run)])
    }
    if (finished.preview) story.did(previewTexts[finished.preview])
  }
  // from here on a cancellation comes too late
  return await CancellationScope.nonCancellable(() => publish(run, work, story))
}

/** Files and manifests are stored already. */
async function keepFiles(run: DeployRunInput, story: Story): Promise<FinishedBuild | undefined> {
  story.become('building')
  const finished = await finishBuild(run, null)
  story.did('✅ files stored')
  return finished
}

async function build(
  run: DeployRunInput,
  work: ClaimedWork,
  task: Extract<DeployTask, { kind: 'build' | 'fetch' }>,
  story: Story,
): Promise<FinishedBuild | undefined> {
  let result: BuildResult
  try {
    const source = task.kind === 'build' ? task : await fetchSource(run, work, story)
    if (!source) return undefined
    if ('error' in source) return await fail(run, { error: source.error, by: 'source' })
    if (!(await waitForPermit(run, story))) return undefined
    result = await buildOnRunner(run, work, source.input, story)
  } catch (error) {
    return await fail(run, { error: platformFault(error), by: 'platform' })
  }
  if (result.outcome === 'built') story.did(builtText(result))
  return await CancellationScope.nonCancellable(() => finishBuild(run, result))
}

async function fail(run: DeployRunInput, failure: BuildFailure): Promise<FinishedBuild> {
  await CancellationScope.nonCancellable(() => failBuild(run, failure))
  return { status: 'failed', error: failure.error }
}

/** What to build, or why the repository cannot be fetched. While it is away the deploy keeps no permit from others. */
async function fetchSource(run: DeployRunInput, work: ClaimedWork, story: Story) {
  const options = {
    summary: `fetch the repository of ${work.site_name}, deploy ${work.seq}`,
    priority: { fairnessKey: work.project_id },
  }
  for (let tries = 1; ; tries++) {
    if (!(await waitForPermit(run, story))) return undefined
    story.goesOn(`fetches the repository since ${timeNow()}, try ${tries} of up to five; then the build`)
    const result = await fetchRepository.executeWithOptions(options, [{ ...run, tries }])
    if (result?.outcome === 'fetched') return tellFetched(result, story)
    if (result?.outcome !== 'away') return result
    const { summary } = tellError(result.error)
    story.goesOn(`${summary}; at ${timeNow()} it waits ${result.retry_after_ms / 1000} s for try ${tries + 1}`)
    await sleep(result.retry_after_ms, { summary: `try ${tries + 1} to fetch the repository` })
  }
}

function tellFetched(result: Extract<FetchResult, { outcome: 'fetched' }>, story: Story) {
  const { commit, message, author, ref } = result.git
  const words = [inlineCode(`${ref}@${commit.slice(0, 7)}`), inlineCode(message), 'by', inlineCode(author)]
  story.did(`✅ fetched ${words.filter((word) => word !== '').join(' ')} (${result.facts})`)
  return result
}

/** PostgreSQL gives permits and has a signal sent with each; asking again now and then only mends what was lost. */
async function waitForPermit(run: DeployRunInput, story: Story): Promise<boolean> {
  let signalled = false
  const hear = () => {
    signalled = true
  }
  setHandler(permitSignal, hear, { description: 'An earlier build has ended: ask for the permit again.' })
  const since = timeNow()
  for (let pauseMs = firstTurnPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxTurnPauseMs)) {
    signalled = false
    const turn = await takeTurn(run)
    if (!turn) return false
    if (turn.granted) return true
    story.goesOn(`queued since ${since}; at ${timeNow()}: ${turn.waits_for}`)
    await condition(() => signalled, pauseMs, { summary: turn.waits_for })
  }
}

async function buildOnRunner(run: DeployRunInput, work: ClaimedWork, input: BuildInput, story: Story): Promise<BuildResult> {
  let over = false
  async function begin({ attempt }: { readonly attempt: number }): Promise<void> {
    if (over) return
    story.become('building')
    if (attempt === 1) story.did(`✅ began after ${secondsSinceStart()} s in the queue`)
    story.goesOn(`building since ${timeNow()}${attempt > 1 ? `, try ${attempt}` : ''}`)
    await markBuilding(run)
  }
  setHandler(buildStartedSignal, (started) => CancellationScope.nonCancellable(() => begin(started)), {
    description: 'A runner has begun the build.',
    unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
  })
  story.goesOn(`waits for a free build slot since ${timeNow()}`)
  try {
    const options = {
      summary: `build ${work.site_name}, deploy ${work.seq}`,
      // projects take turns in the queue, whatever their plan and however many builds they have in it
      priority: { fairnessKey: input.project_id },
    }
    return await buildSource.executeWithOptions(options, [input])
  } finally {
    over = true
  }
}

async function publish(run: DeployRunInput, work: ClaimedWork, story: Story): Promise<DeployReport> {
  if (!work.activate) {
    // pushes to a preview make deploys without an end
    if (work.source_kind === 'git') await purgeOld(work, story)
    await recommend(run, work, story)
    return story.end('ready', '✅ ready, not published')
  }
  const outcome = await publishDeploy(run)
  if (outcome === 'superseded')
    return story.end('superseded', '➖ not published: a later deploy is live, or the site is in the trash')
  if (!outcome) return story.end('stale', lost)
  story.become('active')
  story.did('✅ published')
  await purgeOld(work, story)
  await recommend(run, work, story)
  return story.end('active', '✅ live')
}

async function purgeOld({ site_id }: ClaimedWork, story: Story): Promise<void> {
  try {
    const purged = await applyRetention({ site_id })
    if (purged > 0) story.did(`✅ ${counted(purged, 'old deploy')} purged`)
  } catch (error) {
    story.did(`⚠️ old deploys were not purged: ${firstLine(causeOf(error))}`)
  }
}

async function recommend({ deploy_id }: DeployRunInput, work: ClaimedWork, story: Story): Promise<void> {
  if (!work.to_check) return
  try {
    const count = await checkSite({ deploy_id })
    if (count > 0) story.did(`💡 ${counted(count, 'recommendation')}`)
  } catch (error) {
    story.did(`⚠️ the files were not looked through: ${firstLine(causeOf(error))}`)
  }
}

function platformFault(error: unknown): string {
  if (isCancellation(error)) return 'the operator cancelled the build; deploy again'
  if (!(error instanceof ActivityFailure)) throw error
  const failed = error.activityType === 'fetchRepository' ? 'fetching the repository' : 'the build machine'
  return `${failed} failed (${firstLine(causeOf(error))}); deploy again, and tell the operator if it repeats`
}

const firstLine = (text: string) => text.split('\n', 1)[0] ?? ''

const titleOf = ({ site_name, seq, source_kind, git_ref }: ClaimedWork) =>
  `**${site_name}** · deploy ${seq} from ${source_kind}${git_ref === null ? '' : ` ${inlineCode(git_ref)}`}`

const previewTexts = {
  shown: '✅ the link of the preview shows it',
  closed: '➖ the preview was closed meanwhile: no link shows it',
  overtaken: '➖ the link of the preview shows a later one',
} as const

const builtText = ({ build_mode, build_seconds, ...result }: BuildResult) => {
  const files = result.outcome === 'built' ? `, ${counted(result.file_count, 'file')}` : ''
  return build_mode === 'build' ? `✅ built in ${build_seconds} s${files}` : `✅ unpacked without a build${files}`
}

const secondsSinceStart = () => Math.round((Date.now() - workflowInfo().startTime.getTime()) / 1000)

const whereTheLogIs = ({ deploy_id }: DeployRunInput) =>
  `The log of the build: \`GET /api/v1/deploys/${deploy_id}/logs\`; faults of the platform: the activities \`fetchRepository\` and \`buildSource\` below`
