import { pause } from '../infra/pause.ts'
import { grantAllFreePermits } from '../services/builds/permits.ts'
import type { Services } from '../services/services.ts'
import { pendingWorkflowStarts } from '../services/workflow-messages.ts'
import type { WorkflowClient } from './client.ts'
import { stalledSearches } from './registry.ts'
import { type StalledOptions, type StalledSearch, type StalledWork, stalledSearch } from './stalled.ts'

export interface ReconcileOptions extends StalledOptions {
  /** Begins work that is due by its date alone. */
  readonly beginDue?: (now: Date) => Promise<unknown>
}

export interface ReconcilerOptions extends ReconcileOptions {
  /** The pause between two searches. */
  readonly intervalMs: number
}

/**
 * Restarts work that a crash or a lost Temporal store left behind: PostgreSQL says what is stalled, and Temporal is asked by id whether its
 * workflow is running. Only "no such workflow" and a closed run count; on any error it does nothing. Then it grants free permits to waiting
 * builds. Returns the ids of the workflows that were missing.
 */
export async function reconcile(
  services: Services,
  client: WorkflowClient,
  now: Date,
  options: ReconcileOptions,
): Promise<string[]> {
  const restarted: string[] = []
  const search = stalledSearch(services, now, options)
  for (const find of stalledSearches()) {
    for await (const batch of find(search)) restarted.push(...(await restartMissing(client, search, batch)))
  }
  await options.beginDue?.(now)
  await grantAllFreePermits(services, now)
  return restarted
}

/** Returns the ids of the workflows that were missing. */
async function restartMissing(client: WorkflowClient, search: StalledSearch, batch: readonly StalledWork[]): Promise<string[]> {
  const ids = batch.map((work) => work.workflow_id)
  const pending = await pendingWorkflowStarts(search.services.db, ids)
  const restarted: string[] = []
  for (const work of batch) {
    if (pending.has(work.workflow_id) || (await isWorkedOn(client, work))) continue
    if (await work.restart(search)) restarted.push(work.workflow_id)
  }
  return restarted
}

async function isWorkedOn(client: WorkflowClient, { workflow_id }: StalledWork): Promise<boolean> {
  const status = await client.status(workflow_id)
  return status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED'
}

/** Reconciles at boot and then in intervals, until disposed. */
export function startReconciler(services: Services, client: WorkflowClient, options: ReconcilerOptions): AsyncDisposable {
  const { log } = services
  const stopped = new AbortController()
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        const restarted = await reconcile(services, client, new Date(), options)
        if (restarted.length > 0) log.warn({ workflow_ids: restarted }, 'stalled work restarted')
      } catch (error) {
        log.warn({ err: error }, 'reconciler waits')
      }
      await pause(options.intervalMs, stopped.signal)
    }
  }
  const running = run()
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await running
    },
  }
}
