import type { Db, Tx } from './database.ts'

/** Writes the start of a workflow in the transaction of its cause; the relay starts it after the commit. Repeating an id changes nothing. */
export async function insertWorkflowStart(tx: Tx, start: { readonly workflow_id: string }): Promise<void> {
  await tx
    .insertInto('workflow_starts')
    .values({ workflow_id: start.workflow_id, start: JSON.stringify(start) })
    .onConflict((conflict) => conflict.column('workflow_id').doNothing())
    .execute()
}

/** Locks up to `limit` starts that no other relay holds, oldest first. */
export async function lockWorkflowStarts(tx: Tx, limit: number): Promise<unknown[]> {
  const rows = await tx
    .selectFrom('workflow_starts')
    .select('start')
    .orderBy('created_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute()
  return rows.map((row) => row.start)
}

export async function deleteWorkflowStarts(db: Db, workflowIds: readonly string[]): Promise<void> {
  await db.deleteFrom('workflow_starts').where('workflow_id', 'in', workflowIds).execute()
}

/** Those of the ids whose start is still to be relayed. */
export async function pendingWorkflowStarts(db: Db, workflowIds: readonly string[]): Promise<Set<string>> {
  if (workflowIds.length === 0) return new Set()
  const rows = await db.selectFrom('workflow_starts').select('workflow_id').where('workflow_id', 'in', workflowIds).execute()
  return new Set(rows.map((row) => row.workflow_id))
}
