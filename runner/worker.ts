import { startWorker, type TemporalAddress } from '../infra/temporal/worker.ts'
import { queues } from '../workflows/contract.ts'
import { createBuildActivities } from './activities.ts'
import type { BuildDeps } from './build.ts'

/** Works on the build queue. Builds that still run `shutdownGraceMs` after disposal are cancelled, and the queue hands them out again. */
export function startBuildWorker(temporal: TemporalAddress, deps: BuildDeps, shutdownGraceMs: number): AsyncDisposable {
  return startWorker(
    temporal,
    {
      taskQueue: queues.build,
      activities: { ...createBuildActivities(deps) },
      maxConcurrentActivityTaskExecutions: deps.config.build.slots,
      shutdownGraceTime: shutdownGraceMs,
    },
    deps.log,
  )
}
