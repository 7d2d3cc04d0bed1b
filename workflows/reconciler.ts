import { setTimeout as pause } from 'node:timers/promises'
import { giveFreePermits } from '../services/builds/permits.ts'
import type { Services } from '../services/services.ts'
import { pendingWorkflowStarts } from '../services/workflow-messages.ts'
import type { WorkflowClient } from './client.ts'
import { type Unfinished, type UnfinishedOptions, unfinishedWork } from './unfinished.ts'

export interface ReconcileOptions extends UnfinishedOptions {
  /** Begins what is due by its date alone. */
  readonly beginDue?: (now: Date) => Promise<unknown>
}

export interface ReconcilerOptions extends ReconcileOptions {
  /** Between two looks. */
  readonly intervalMs: number
}

/**
 * Restarts what a crash or a lost Temporal store left behind: PostgreSQL says what is unfinished, Temporal is asked by id whether someone
 * works on it. Only "no such workflow" and a closed run count; any error means do nothing. Then gives permits that nobody uses to
 * builds that wait for one. Answers the ids of the workflows that it found missing.
 */
export async function reconcile(
  services: Services,
  client: WorkflowClient,
  now: Date,
  options: ReconcileOptions,
): Promise<string[]> {
  const restarted: string[] = []
  for await (const batch of unfinishedWork(services, now, options)) {
    const pending = await pendingWorkflowStarts(
      services.db,
      batch.map((one) => one.workflow_id),
    )
    for (const one of batch) {
      if (pending.has(one.workflow_id) || (await isWorkedOn(client, one))) continue
      if (await one.restart()) restarted.push(one.workflow_id)
    }
  }
  await options.beginDue?.(now)
  await giveFreePermits(services, now)
  return restarted
}

async function isWorkedOn(client: WorkflowClient, { workflow_id }: Unfinished): Promise<boolean> {
  const status = await client.status(workflow_id)
  return status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED'
}

/** Looks at boot and then in intervals, until disposed. */
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
      await pause(options.intervalMs, undefined, { signal: stopped.signal }).catch(() => undefined)
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
