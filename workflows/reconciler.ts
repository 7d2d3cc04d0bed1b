import { isDatabaseAway } from '../infra/db/errors.ts'
import { pause } from '../infra/pause.ts'
import { grantAllFreePermits } from '../services/builds/permits.ts'
import type { Services } from '../services/services.ts'
import { forgetStuckOf, listStuckWorkflows } from '../services/stuck-activities.ts'
import { unsentStarts } from '../services/workflow-messages.ts'
import { isTemporalAway, type WorkflowClient, type WorkflowState } from './client.ts'
import { stalledSearches } from './registry.ts'
import { type StalledOptions, type StalledSearch, type StalledWork, stalledSearch } from './stalled.ts'

export interface ReconcileOptions extends StalledOptions {
  /** Begins work that is due by its date alone; each by its name in the log. */
  readonly beginDue?: Readonly<Record<string, (now: Date) => Promise<unknown>>>
}

export interface ReconcilerOptions extends ReconcileOptions {
  /** The pause between two searches. */
  readonly intervalMs: number
}

/** A workflow that has failed would fail again: it is restarted when the platform may have been corrected. */
const failedPauseMs = 3_600_000

type RunPart = (part: string, work: () => Promise<unknown>) => Promise<boolean>

/**
 * Restarts work that a crash or a lost Temporal store left behind: PostgreSQL says what is stalled, and Temporal is asked by id whether its
 * workflow is running. Only "no such workflow" and a closed run count; on any error it does nothing. Work that cannot go on is ended. Then it
 * begins what is due, and grants free permits to waiting builds. A part or a row that fails keeps no other from being treated.
 * @returns the ids of the workflows that were missing
 * @throws AggregateError at the end, when anything has failed
 */
export async function reconcile(
  services: Services,
  client: WorkflowClient,
  now: Date,
  options: ReconcileOptions,
): Promise<string[]> {
  const failures: unknown[] = []
  const run: RunPart = async (part, work) => {
    try {
      await work()
      return true
    } catch (error) {
      failures.push(error)
      services.log.error({ err: error, part }, 'reconciler failed')
      return false
    }
  }
  const restarted: string[] = []
  const search = stalledSearch(services, now, options)
  if (await run('temporal', () => client.ping())) {
    for (const { type, find } of stalledSearches()) {
      await run(type, async () => {
        for await (const batch of find(search)) restarted.push(...(await restartMissing(client, search, batch, run)))
      })
    }
    await run('stuck activities', () => forgetEndedActivities(services, client, search.limit))
  }
  for (const [part, begin] of Object.entries(options.beginDue ?? {})) await run(part, () => begin(now))
  await run('permits', () => grantAllFreePermits(services, now))
  if (restarted.length > 0) services.log.warn({ workflow_ids: restarted }, 'stalled work restarted')
  if (failures.length > 0) throw new AggregateError(failures, 'parts of the reconciler have failed')
  return restarted
}

/** Returns the ids of the workflows that were missing. */
async function restartMissing(
  client: WorkflowClient,
  search: StalledSearch,
  batch: readonly StalledWork[],
  run: RunPart,
): Promise<string[]> {
  const ids = batch.map((work) => work.workflow_id)
  const unsent = await unsentStarts(search.services.db, ids)
  const restarted: string[] = []
  for (const work of batch) {
    try {
      if (await restartIfMissing(client, search, work, unsent.get(work.workflow_id))) restarted.push(work.workflow_id)
    } catch (error) {
      // the other rows would fail as well, each after some seconds
      if (isTemporalAway(error) || isDatabaseAway(error)) throw error
      await run(work.workflow_id, () => Promise.reject(error))
    }
  }
  return restarted
}

async function restartIfMissing(
  client: WorkflowClient,
  search: StalledSearch,
  work: StalledWork,
  start: 'waiting' | 'dead' | undefined,
): Promise<boolean> {
  if (start === 'waiting') return false
  const state = await client.describe(work.workflow_id)
  if (state && isOpen(state)) return false
  const hasFailed = state?.status === 'FAILED'
  if ((start === 'dead' || hasFailed) && (await work.giveUp?.(search))) return false
  if (start === 'dead') return false
  if (hasFailed && state.closedAt && search.now.getTime() - state.closedAt.getTime() < failedPauseMs) return false
  return await work.restart(search)
}

const isOpen = ({ status }: WorkflowState) => status === 'RUNNING' || status === 'CONTINUED_AS_NEW' || status === 'PAUSED'

/** Deletes the stuck activities of workflows that were ended from outside. */
async function forgetEndedActivities({ db }: Services, client: WorkflowClient, limit: number): Promise<void> {
  for (let afterId: string | undefined; ; ) {
    const ids = await listStuckWorkflows(db, { limit, afterId })
    for (const id of ids) {
      const state = await client.describe(id)
      if (!state || !isOpen(state)) await forgetStuckOf(db, id)
    }
    if (ids.length < limit) return
    afterId = ids.at(-1)
  }
}

/** Reconciles at boot and then in intervals, until disposed. */
export function startReconciler(services: Services, client: WorkflowClient, options: ReconcilerOptions): AsyncDisposable {
  const stopped = new AbortController()
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await reconcile(services, client, services.clock(), options)
      } catch (error) {
        // the failures of parts have been logged
        if (!(error instanceof AggregateError)) services.log.warn({ err: error }, 'reconciler waits')
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
