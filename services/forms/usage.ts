import { sql } from 'kysely'
import { hiddenSubmissionsFactor, maxUnlimitedSpam } from '../../core/limits.ts'
import { monthOf } from '../../core/months.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { countInProject } from './site-forms.ts'

// What submissions are charged to: the quota of the month, then the balance. The month's use is spread over several rows, so that submissions to
// many sites of one project do not wait for each other.

const shards = 16

/** How a submission is paid for; `hidden`: nothing is left. `exhausted`: the room for hidden ones is used up as well. */
export type Charge =
  | { readonly kind: 'charged' }
  | { readonly kind: 'hidden'; readonly hidden_no: number }
  | { readonly kind: 'exhausted' }

/** Submissions charged to the quota of the UTC calendar month that `now` lies in. */
export async function formsUsed(db: Db, projectId: string, now: Date): Promise<number> {
  const { used } = await db
    .selectFrom('form_usage')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<number>('used'), sql<number>`0`).as('used'))
    .where('project_id', '=', projectId)
    .where('month', '=', monthOf(now))
    .executeTakeFirstOrThrow()
  return used
}

/** Adds to one of the month's rows, which stays locked until the transaction ends. */
export async function addFormsUsed(tx: Tx, projectId: string, now: Date, amount: number): Promise<void> {
  const month = monthOf(now)
  const shard = Math.floor(Math.random() * shards)
  const add = () =>
    tx
      .updateTable('form_usage')
      .set((eb) => ({ used: eb('used', '+', amount) }))
      .where('project_id', '=', projectId)
      .where('month', '=', month)
      .where('shard', '=', shard)
      .executeTakeFirst()
  if ((await add()).numUpdatedRows > 0n) return
  await insertMonth(tx, projectId, month)
  await add()
}

/** All rows at once and in order, so that they can be locked, and no two transactions wait for each other. */
async function insertMonth(tx: Tx, projectId: string, month: string): Promise<void> {
  await sql`
    insert into form_usage (project_id, month, shard)
    select ${projectId}::uuid, ${month}::date, shard from generate_series(0, ${shards - 1}::int) shard
    on conflict do nothing`.execute(tx)
}

/**
 * Charges a submission that is far below the limit, without the project's lock. Each transaction under way adds at most one, and there are at
 * most as many as PostgreSQL has connections: while the committed sum is further below the limit than that, it cannot be exceeded. The sum is read
 * under the lock of one row of the month; who counts exactly waits for it. False when it is too near: the transaction must be rolled back then.
 */
export async function chargeFarBelow(tx: Tx, projectId: string, limit: number | null, now: Date): Promise<boolean> {
  await addFormsUsed(tx, projectId, now, 1)
  return !(await isNearLimit(tx, projectId, limit, now))
}

/** Whether so little of the month's quota is left that concurrent submissions might exceed it together. */
export async function isNearLimit(db: Db, projectId: string, limit: number | null, now: Date): Promise<boolean> {
  if (limit === null) return false
  const { rows } = await sql<{ is_near: boolean }>`
    select coalesce(sum(used), 0) + current_setting('max_connections')::int > ${limit} as is_near
    from form_usage where project_id = ${projectId} and month = ${monthOf(now)}`.execute(db)
  return rows[0]?.is_near ?? true
}

/** Charges a submission exactly. Under the project's lock. */
export async function charge(tx: Tx, { config }: Pick<Services, 'config'>, project: ProjectRow, now: Date): Promise<Charge> {
  const limit = config.plans[project.plan].forms_per_month
  if (limit === null || (await lockedFormsUsed(tx, project.id, now)) < limit) {
    await addFormsUsed(tx, project.id, now, 1)
    return { kind: 'charged' }
  }
  if (project.form_balance > 0) {
    await tx
      .updateTable('projects')
      .set((eb) => ({ form_balance: eb('form_balance', '-', 1) }))
      .where('id', '=', project.id)
      .execute()
    return { kind: 'charged' }
  }
  if ((await countInProject(tx, project.id, 'hidden')) >= hiddenSubmissionsFactor * limit) return { kind: 'exhausted' }
  const { hidden_no } = await tx
    .updateTable('projects')
    .set((eb) => ({ hidden_no: eb('hidden_no', '+', 1) }))
    .where('id', '=', project.id)
    .returning('hidden_no')
    .executeTakeFirstOrThrow()
  return { kind: 'hidden', hidden_no }
}

/** The month's use, of which nothing is under way. Under the project's lock; waits for submissions that are charged without it. */
export async function lockedFormsUsed(tx: Tx, projectId: string, now: Date): Promise<number> {
  const month = monthOf(now)
  const lock = () =>
    tx
      .selectFrom('form_usage')
      .select('used')
      .where('project_id', '=', projectId)
      .where('month', '=', month)
      .orderBy('shard')
      .forUpdate()
      .execute()
  let rows = await lock()
  if (rows.length === 0) {
    await insertMonth(tx, projectId, month)
    rows = await lock()
  }
  return rows.reduce((sum, { used }) => sum + used, 0)
}

/** The most spam that a project keeps. */
export const spamLimit = (monthlyQuota: number | null) =>
  monthlyQuota === null ? maxUnlimitedSpam : hiddenSubmissionsFactor * monthlyQuota
