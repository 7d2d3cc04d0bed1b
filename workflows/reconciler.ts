import { setTimeout as pause } from 'node:timers/promises'
import type { Db } from '../infra/db/database.ts'
import { listStalledDeploys, retryDeploy } from '../infra/db/deploys.ts'
import { insertWorkflowStart, pendingWorkflowStarts } from '../infra/db/workflow-starts.ts'
import type { Logger } from '../infra/log.ts'
import type { WorkflowClient } from './client.ts'
import { deployStart, deployWorkflowId } from './contract.ts'

const batchSize = 200

export interface ReconcilerOptions {
  /** Between two looks. */
  readonly intervalMs: number
  /** A deploy that moved more recently is left alone. */
  readonly stalledAfterMs: number
}

/**
 * Restarts deploys that a crash or a lost Temporal store left behind: PostgreSQL says what is unfinished, Temporal is asked by
 * id whether someone works on it. Only "no such workflow" and a closed run count; any error means do nothing.
 */
export async function reconcile(db: Db, client: WorkflowClient, now: Date, stalledAfterMs: number): Promise<string[]> {
  const stalled = await listStalledDeploys(db, new Date(now.getTime() - stalledAfterMs), batchSize)
  const pending = await pendingWorkflowStarts(db, stalled.map(deployWorkflowId))
  const restarted: string[] = []
  for (const deploy of stalled) {
    if (pending.has(deployWorkflowId(deploy))) continue
    const status = await client.status(deployWorkflowId(deploy))
    if (status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED') continue
    const changed = await db.transaction().execute(async (tx) => {
      if (!(await retryDeploy(tx, deploy.deploy_id, deploy.attempt))) return false
      await insertWorkflowStart(tx, deployStart({ ...deploy, attempt: deploy.attempt + 1 }))
      return true
    })
    if (changed) restarted.push(deploy.deploy_id)
  }
  return restarted
}

/** Looks at boot and then in intervals, until disposed. */
export function startReconciler(db: Db, client: WorkflowClient, log: Logger, options: ReconcilerOptions): AsyncDisposable {
  const stopped = new AbortController()
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        const restarted = await reconcile(db, client, new Date(), options.stalledAfterMs)
        if (restarted.length > 0) log.warn({ deploy_ids: restarted }, 'stalled deploys restarted')
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
