import { sql } from 'kysely'
import type { Db } from '../infra/db/database.ts'

// Activities that have failed more than ten times and are tried again. Their worker writes them down, for the operator; nothing depends on a row.

export interface StuckActivity {
  readonly workflow_id: string
  /** Unique within the workflow. */
  readonly activity_id: string
  /** The name of the activity. */
  readonly type: string
  readonly attempts: number
  readonly error: string
}

/** Records one more failure of an activity. */
export async function recordStuck(db: Db, { workflow_id, activity_id, type, attempts, error }: StuckActivity): Promise<void> {
  const times = { first_failed_at: sql<Date>`now()`, last_failed_at: sql<Date>`now()` }
  await db
    .insertInto('stuck_activities')
    .values({ workflow_id, activity_id, type, attempts, error, ...times })
    .onConflict((conflict) =>
      conflict
        .columns(['workflow_id', 'activity_id'])
        .doUpdateSet({ type, attempts, error, last_failed_at: times.last_failed_at }),
    )
    .execute()
}

/** Deletes an activity that has ended. */
export async function forgetStuck(
  db: Db,
  { workflow_id, activity_id }: Pick<StuckActivity, 'workflow_id' | 'activity_id'>,
): Promise<void> {
  await db.deleteFrom('stuck_activities').where('workflow_id', '=', workflow_id).where('activity_id', '=', activity_id).execute()
}

/** Lists stuck activities, those that have failed for the longest time first. */
export function listStuckActivities(db: Db, limit: number) {
  return db.selectFrom('stuck_activities').selectAll().orderBy('first_failed_at').orderBy('workflow_id').limit(limit).execute()
}

export async function countStuckActivities(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('stuck_activities')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Lists the workflows of stuck activities after an id, in the order of their ids. */
export async function listStuckWorkflows(db: Db, { limit, afterId }: { limit: number; afterId: string | undefined }) {
  const rows = await db
    .selectFrom('stuck_activities')
    .select('workflow_id')
    .distinct()
    .$if(afterId !== undefined, (query) => query.where('workflow_id', '>', afterId ?? ''))
    .orderBy('workflow_id')
    .limit(limit)
    .execute()
  return rows.map((row) => row.workflow_id)
}

/** Deletes the activities of a workflow that has ended. */
export async function forgetStuckOf(db: Db, workflowId: string): Promise<void> {
  await db.deleteFrom('stuck_activities').where('workflow_id', '=', workflowId).execute()
}
