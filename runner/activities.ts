import { Context } from '@temporalio/activity'
import type { Logger } from '../infra/log.ts'
import { pause } from '../infra/pause.ts'
import { heartbeatMs, withHeartbeat } from '../infra/temporal/heartbeat.ts'
import type { BuildActivities } from '../workflows/contract/builds.ts'
import { signals } from '../workflows/contract/messages.ts'
import { runBuild } from './build.ts'
import type { BuildDeps, Phase } from './build-context.ts'
import type { BuildLog } from './build-log.ts'

const signalDeadlineMs = 2000
const maxLineLength = 200

/** The activities of the build queue. Each build signals its workflow when it begins, and reports its progress with heartbeats. */
export function createBuildActivities(deps: BuildDeps): BuildActivities {
  return {
    async buildSource(input) {
      const context = Context.current()
      const startedAt = performance.now()
      let phase: Phase = 'wait'
      let buildLog: Pick<BuildLog, 'recent'> | undefined
      let last_line = ''
      const progress = () => ({ phase, seconds: Math.round((performance.now() - startedAt) / 1000), last_line })
      const readLastLine = async () => {
        last_line = lastLine((await buildLog?.recent()) ?? '')
      }
      await using begun = announcement(context, deps.log)
      const run = (signal: AbortSignal) =>
        runBuild(deps, input, {
          signal,
          isCancelled: () => context.cancellationDetails?.cancelRequested ?? false,
          onPhase(next) {
            if (phase === 'wait' && next !== 'wait') begun.start()
            phase = next
            context.heartbeat(progress())
          },
          onLog(log) {
            buildLog = log
          },
        })
      return await withHeartbeat(run, () => {
        // a heartbeat does not wait for the reader of the log, so it has the last line of the previous heartbeat
        readLastLine().catch(() => undefined)
        return progress()
      })
    },
  }
}

/** Signals the workflow that its build has begun, until the signal arrives or the build ends. Nothing depends on it. */
function announcement(context: Context, log: Logger) {
  const over = new AbortController()
  let announcing: Promise<void> | undefined

  async function announce(): Promise<void> {
    const { client, info } = context
    const execution = info.workflowExecution
    if (!execution) return
    const handle = client.workflow.getHandle(execution.workflowId, execution.runId)
    while (!over.signal.aborted) {
      try {
        const send = () => handle.signal(signals.buildStarted, { attempt: info.attempt })
        return await client.withDeadline(Date.now() + signalDeadlineMs, send)
      } catch (error) {
        log.debug({ err: error, workflow_id: execution.workflowId }, 'start of the build not announced')
        await pause(heartbeatMs, over.signal)
      }
    }
  }

  return {
    start() {
      announcing ??= announce()
    },
    async [Symbol.asyncDispose]() {
      over.abort()
      await announcing
    },
  }
}

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1)?.slice(0, maxLineLength) ?? ''
}
