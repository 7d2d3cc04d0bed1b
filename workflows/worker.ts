import { join } from 'node:path'
import type { WorkerOptions } from '@temporalio/worker'
import type { Config } from '../infra/config.ts'
import { bundleWorkflowCode, type WorkflowSources } from '../infra/temporal/bundle.ts'
import { startWorker, type TemporalAddress } from '../infra/temporal/worker.ts'
import { activityBorder } from './activity-border.ts'
import { queues } from './contract/messages.ts'
import { activitiesOf, type WorkerDeps, type WorkerQueue } from './registry.ts'

/** The definitions import from these folders only. */
const sources: WorkflowSources = {
  entry: join(import.meta.dirname, 'definitions', 'index.ts'),
  folders: ['definitions', 'contract', '../core'].map((folder) => join(import.meta.dirname, folder)),
}

/** The code of all workflows; made once for each version of it. */
export const bundleWorkflows = ({ cacheDir }: Pick<Config, 'cacheDir'>) => bundleWorkflowCode(sources, cacheDir)

/** The options of each queue. The launcher kills after 10 s, so closing takes less. */
const queueOptions = {
  // running steps end
  control: {
    // the delay after a killed worker; the default is 10 s
    stickyQueueScheduleToStartTimeout: '2s',
    shutdownGraceTime: '7s',
  },
  report: {
    // slow forges hold up reports to other forges only when this many are under way, and nothing else
    maxConcurrentActivityTaskExecutions: 50,
    shutdownGraceTime: '2s',
  },
  webhook: {
    // a project has a few of them at most, so it takes many slow receivers to fill these
    maxConcurrentActivityTaskExecutions: 100,
    shutdownGraceTime: '2s',
  },
  payment: {
    // enough for an hour's payments of many sites, and few enough for a provider that counts requests
    maxConcurrentActivityTaskExecutions: 20,
    shutdownGraceTime: '2s',
  },
  compress: {
    // one processor at most, for all projects
    maxConcurrentActivityTaskExecutions: 1,
    // what runs is cancelled and begun again: a batch of files is lost
    shutdownGraceTime: 0,
    maxHeartbeatThrottleInterval: '2s',
  },
  // running fetches are cancelled: another worker, or the next start, retries them
  fetch: {
    // each is a process of its own, with its own memory
    maxConcurrentActivityTaskExecutions: 3,
    shutdownGraceTime: 0,
    // a cancellation arrives with the answer to a heartbeat
    maxHeartbeatThrottleInterval: '2s',
  },
} as const satisfies Record<WorkerQueue, Partial<WorkerOptions>>

export const workerQueues = [
  'fetch',
  'report',
  'webhook',
  'payment',
  'compress',
  'control',
] as const satisfies readonly WorkerQueue[]

/**
 * Works on queues with the activities that the registry has for them, and on the control queue with the workflows.
 * @param bundle from {@link bundleWorkflows}
 */
export function startQueues(
  temporal: TemporalAddress,
  deps: WorkerDeps,
  bundle: { readonly code: string },
  wanted: readonly WorkerQueue[] = workerQueues,
): AsyncDisposable {
  const stack = new AsyncDisposableStack()
  for (const queue of wanted) {
    const options = {
      taskQueue: queues[queue],
      activities: activitiesOf(queue, deps),
      interceptors: { activity: [activityBorder(deps)] },
      ...(queue === 'control' && { workflowBundle: bundle }),
      ...queueOptions[queue],
    }
    stack.use(startWorker(temporal, options, deps.log))
  }
  return stack
}
