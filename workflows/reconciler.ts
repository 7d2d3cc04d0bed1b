import { setTimeout as pause } from 'node:timers/promises'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { listProjectsWithFreeTurns } from '../services/builds/permits.ts'
import { lockProject } from '../services/projects/projects.ts'
import { insertWorkflowSignals, insertWorkflowStart, pendingWorkflowStarts } from '../services/workflow-messages.ts'
import type { WorkflowClient } from './client.ts'
import { giveTurns, permitsOf } from './turns.ts'
import { type Unfinished, type UnfinishedOptions, unfinishedWork } from './unfinished.ts'

export interface ReconcileOptions extends UnfinishedOptions {
  /** How many builds of a project may run or wait for a slot at once. */
  readonly buildsPerProject: number
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
export async function reconcile(db: Db, client: WorkflowClient, now: Date, options: ReconcileOptions): Promise<string[]> {
  const restarted: string[] = []
  for await (const batch of unfinishedWork(db, now, options)) {
    const pending = await pendingWorkflowStarts(
      db,
      batch.map((one) => one.workflow_id),
    )
    for (const one of batch) {
      if (pending.has(one.workflow_id) || (await isWorkedOn(client, one))) continue
      if (await restart(db, one)) restarted.push(one.workflow_id)
    }
  }
  await options.beginDue?.(now)
  await giveFreeTurns(db, now, options.buildsPerProject)
  return restarted
}

async function isWorkedOn(client: WorkflowClient, { workflow_id }: Unfinished): Promise<boolean> {
  const status = await client.status(workflow_id)
  return status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED'
}

function restart(db: Db, unfinished: Unfinished): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const message = await unfinished.startAgain(tx)
    if (message && 'signal' in message) await insertWorkflowSignals(tx, [message])
    else if (message) await insertWorkflowStart(tx, message)
    return message !== undefined
  })
}

async function giveFreeTurns(db: Db, now: Date, cap: number): Promise<void> {
  for (const id of await listProjectsWithFreeTurns(db, permitsOf(cap), now)) {
    await db.transaction().execute(async (tx) => {
      await lockProject(tx, id)
      await giveTurns(tx, { id, cap }, now)
    })
  }
}

/** Looks at boot and then in intervals, until disposed. */
export function startReconciler(db: Db, client: WorkflowClient, log: Logger, options: ReconcilerOptions): AsyncDisposable {
  const stopped = new AbortController()
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        const restarted = await reconcile(db, client, new Date(), options)
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
