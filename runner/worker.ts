import { startWorker, type TemporalAddress } from '../infra/temporal/worker.ts'
import { queues } from '../workflows/contract/messages.ts'
import { createBuildActivities } from './activities.ts'
import type { BuildDeps } from './build-context.ts'

/** Works on the build queue. Disposing stops taking builds, gives running ones `shutdownGraceMs`, then cancels them. */
export function startBuildWorker(temporal: TemporalAddress, deps: BuildDeps, shutdownGraceMs: number): AsyncDisposable {
  const options = {
    taskQueue: queues.build,
    activities: { ...createBuildActivities(deps) },
    maxConcurrentActivityTaskExecutions: deps.config.build.slots,
    shutdownGraceTime: shutdownGraceMs,
    // a cancellation arrives with the response to a heartbeat, of which the default sends one in 8 s
    maxHeartbeatThrottleInterval: '2s',
  }
  return startWorker(temporal, options, deps.log)
}
