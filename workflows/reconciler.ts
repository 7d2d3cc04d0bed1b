import { setTimeout as pause } from 'node:timers/promises'
import { listProjectsWithFreeTurns } from '../infra/db/build-turns.ts'
import type { Db } from '../infra/db/database.ts'
import { listStalledDeploys, retryDeploy } from '../infra/db/deploys.ts'
import { lockProject } from '../infra/db/projects.ts'
import { insertWorkflowStart, pendingWorkflowStarts } from '../infra/db/workflow-starts.ts'
import type { Logger } from '../infra/log.ts'
import type { WorkflowClient } from './client.ts'
import { deployStart, deployWorkflowId } from './contract.ts'
import { giveTurns } from './turns.ts'

const batchSize = 200

export interface ReconcileOptions {
  /** A deploy that moved more recently is left alone. */
  readonly stalledAfterMs: number
  /** How many builds of a project may run or wait for a slot at once. */
  readonly buildsPerProject: number
}

export interface ReconcilerOptions extends ReconcileOptions {
  /** Between two looks. */
  readonly intervalMs: number
}

type Stalled = Awaited<ReturnType<typeof listStalledDeploys>>[number]

/**
 * Restarts deploys that a crash or a lost Temporal store left behind: PostgreSQL says what is unfinished, Temporal is asked by
 * id whether someone works on it. Only "no such workflow" and a closed run count; any error means do nothing. Then gives turns that
 * nobody uses to builds that wait for one. Answers the deploys that it restarted.
 */
export async function reconcile(db: Db, client: WorkflowClient, now: Date, options: ReconcileOptions): Promise<string[]> {
  const before = new Date(now.getTime() - options.stalledAfterMs)
  const restarted: string[] = []
  for (let afterId: string | undefined; ; ) {
    const stalled = await listStalledDeploys(db, before, { limit: batchSize, afterId })
    const pending = await pendingWorkflowStarts(db, stalled.map(deployWorkflowId))
    for (const deploy of stalled) {
      if (pending.has(deployWorkflowId(deploy)) || (await isWorkedOn(client, deploy))) continue
      if (await restart(db, deploy)) restarted.push(deploy.deploy_id)
    }
    if (stalled.length < batchSize) break
    afterId = stalled.at(-1)?.deploy_id
  }
  await giveFreeTurns(db, now, options.buildsPerProject)
  return restarted
}

async function isWorkedOn(client: WorkflowClient, deploy: Stalled): Promise<boolean> {
  const status = await client.status(deployWorkflowId(deploy))
  return status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED'
}

/** The next attempt has no turn: it asks for one again. */
function restart(db: Db, deploy: Stalled): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    await lockProject(tx, deploy.project_id)
    if (!(await retryDeploy(tx, deploy.deploy_id, deploy.attempt))) return false
    await insertWorkflowStart(tx, deployStart({ ...deploy, attempt: deploy.attempt + 1 }))
    return true
  })
}

async function giveFreeTurns(db: Db, now: Date, cap: number): Promise<void> {
  for (const id of await listProjectsWithFreeTurns(db, cap)) {
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
