import { defineSearchAttributeKey } from '@temporalio/common'
import {
  ActivityFailure,
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import {
  type BuildActivities,
  type BuildInput,
  type BuildResult,
  type ClaimedWork,
  type DeployActivities,
  type DeployInput,
  type DeployOutcome,
  queues,
} from '../contract.ts'

/** A step of a few milliseconds in PostgreSQL, repeated until it answers. */
const step = (summary: string) =>
  proxyLocalActivities<DeployActivities>({
    summary,
    startToCloseTimeout: '15s',
    retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '20s' },
  })
const { claimDeploy } = step('queued → building, if no other run owns it')
const { finishBuild } = step('building → ready or failed, within the storage quota')
const { failBuild } = step('building → failed: the platform is at fault')
const { publishDeploy } = step('ready → active, unless a later deploy is live')

const buildQueue = proxyActivities<BuildActivities>({
  taskQueue: queues.build,
  // the runner ends a build by itself long before; this bounds a runner that hangs
  startToCloseTimeout: '2h',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 4 },
})

const statusKey = defineSearchAttributeKey('DeployStatus', 'KEYWORD')

/** Takes a deploy from `queued` to `active` (or `ready`, when publishing was not asked for). */
export async function deploy(input: DeployInput): Promise<DeployOutcome> {
  const run = { ...input, run_id: workflowInfo().runId }
  const work = await claimDeploy(run)
  if (!work) return finish('stale', ['➖ another run owns this deploy'])

  const steps = [`**${work.site_name}** · deploy ${work.seq} from ${work.source_kind}`]
  if (!work.built) {
    show('building', [...steps, work.build ? '⏳ building' : '⏳ publishing stored files'])
    const result = work.build && (await build(work, work.build))
    if (result?.outcome === 'platform_failure') {
      await CancellationScope.nonCancellable(() => failBuild(run, result.error))
      return finish('failed', [...steps, `❌ ${result.error}`])
    }
    const finished = await finishBuild(run, result)
    if (!finished) return finish('stale', [...steps, '➖ another run owns this deploy'])
    if (finished.status === 'failed') return finish('failed', [...steps, `❌ ${firstLine(finished.error)}`])
    steps.push(result ? `✅ built in ${result.build_seconds} s` : '✅ files stored')
  }

  if (!work.activate) return finish('ready', [...steps, '✅ ready, not published'])
  const outcome = await publishDeploy(run)
  if (outcome === 'superseded') return finish('superseded', [...steps, '➖ a later deploy is live'])
  return finish(outcome ?? 'stale', [...steps, '✅ live'])
}

type PlatformFailure = { readonly outcome: 'platform_failure'; readonly error: string }

async function build(work: ClaimedWork, input: BuildInput): Promise<BuildResult | PlatformFailure> {
  try {
    return await buildQueue.buildSource.executeWithOptions({ summary: `build ${work.site_name}, deploy ${work.seq}` }, [input])
  } catch (error) {
    if (isCancellation(error)) return { outcome: 'platform_failure', error: 'the operator cancelled the build; deploy again' }
    if (!(error instanceof ActivityFailure)) throw error
    return {
      outcome: 'platform_failure',
      error: `the build machine failed (${causeOf(error)}); deploy again, and tell the operator if it repeats`,
    }
  }
}

const causeOf = (error: ActivityFailure) => firstLine(error.cause?.message ?? error.message)
const firstLine = (text: string) => text.split('\n', 1)[0] ?? ''

function show(status: string, steps: readonly string[]): void {
  upsertSearchAttributes([{ key: statusKey, value: status }])
  setCurrentDetails(steps.join('\n\n'))
}

/** Current details are shown while a worker answers; the memo stays for good. */
function finish(outcome: DeployOutcome, steps: readonly string[]): DeployOutcome {
  show(outcome, steps)
  upsertMemo({ outcome: steps.at(-1) ?? outcome })
  return outcome
}
