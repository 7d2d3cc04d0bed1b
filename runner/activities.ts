import { Context } from '@temporalio/activity'
import type { BuildActivities } from '../workflows/contract.ts'
import { type BuildDeps, type Phase, runBuild } from './build.ts'

/** Cancellation arrives in the answer to a heartbeat; the SDK sends at most one per 0.8 of the heartbeat timeout. */
const heartbeatMs = 2000

/** The activities of the build queue. Each build reports its phase with its heartbeats and stops when it is cancelled. */
export function createBuildActivities(deps: BuildDeps): BuildActivities {
  return {
    async buildSource(input) {
      const context = Context.current()
      let phase: Phase = 'wait'
      const beat = () => context.heartbeat({ phase })
      const timer = setInterval(beat, heartbeatMs)
      try {
        return await runBuild(deps, input, {
          signal: context.cancellationSignal,
          onPhase(next) {
            phase = next
            beat()
          },
        })
      } finally {
        clearInterval(timer)
      }
    },
  }
}
