import type { Db } from '../infra/db/database.ts'
import type { RegisteredSignal, RegisteredStart } from '../workflows/contract/workflows.ts'
import type { Tx } from './transact.ts'

/** Writes the start of a workflow in the transaction of its cause; the relay starts it after the commit. Repeating an id changes nothing. */
export async function startWorkflow(tx: Tx, start: RegisteredStart): Promise<void> {
  await tx
    .insertInto('workflow_starts')
    .values({ workflow_id: start.workflow_id, message: JSON.stringify(start) })
    .onConflict((conflict) => conflict.column('workflow_id').where('signal', 'is', null).doNothing())
    .execute()
  tx.afterCommit(tx.wakeRelay)
}

/** Writes signals to workflows in the transaction of their cause; the relay sends each after the commit, perhaps twice. */
export async function signalWorkflows(tx: Tx, signals: readonly RegisteredSignal[]): Promise<void> {
  if (signals.length === 0) return
  await tx
    .insertInto('workflow_starts')
    .values(signals.map((one) => ({ workflow_id: one.workflow_id, signal: one.signal, message: JSON.stringify(one) })))
    .execute()
  tx.afterCommit(tx.wakeRelay)
}

/** Locks up to `limit` messages that no other relay holds, oldest first. A signal waits for the start of its workflow. */
export async function lockWorkflowMessages(tx: Db, limit: number): Promise<readonly { id: string; message: unknown }[]> {
  return await tx
    .selectFrom('workflow_starts')
    .select(['id', 'message'])
    .where((eb) =>
      eb.or([
        eb('signal', 'is', null),
        eb.not(
          eb.exists(
            eb
              .selectFrom('workflow_starts as start')
              .select('start.id')
              .whereRef('start.workflow_id', '=', 'workflow_starts.workflow_id')
              .where('start.signal', 'is', null),
          ),
        ),
      ]),
    )
    .orderBy('created_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute()
}

export async function deleteWorkflowMessages(tx: Db, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await tx.deleteFrom('workflow_starts').where('id', 'in', ids).execute()
}

/** Returns the ids whose start was not relayed yet. */
export async function pendingWorkflowStarts(db: Db, workflowIds: readonly string[]): Promise<Set<string>> {
  if (workflowIds.length === 0) return new Set()
  const rows = await db
    .selectFrom('workflow_starts')
    .select('workflow_id')
    .where('workflow_id', 'in', workflowIds)
    .where('signal', 'is', null)
    .execute()
  return new Set(rows.map((row) => row.workflow_id))
}

/** The number of messages that wait for the relay, and the age of the oldest. */
export function waitingMessages(db: Db): Promise<{ count: number; oldest: Date | null }> {
  return db
    .selectFrom('workflow_starts')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.min('created_at').as('oldest')])
    .executeTakeFirstOrThrow()
}
