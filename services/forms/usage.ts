import { sql } from 'kysely'
import { hiddenSubmissionsFactor, maxUnlimitedSpam } from '../../core/limits.ts'
import { monthOf } from '../../core/months.ts'
import type { Quotas } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { countSubmissions } from './site-forms.ts'

// What submissions are charged to: the quota of the month, then the balance. The month's use is spread over several rows, each with a share of
// what is left of the quota: while a row has some of its share, it is charged alone, so that submissions to many sites of one project do not wait
// for each other. When the share is used up, all rows are counted under the project's lock, and what is left is shared out again.

type Limit = Quotas['forms_per_month']

const shards = 16
/** Another one for most connections of PostgreSQL, so that they seldom wait for each other. */
const ownShard = sql`(pg_backend_pid() % ${sql.lit(shards)})`

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

/**
 * The part of a statement that charges one submission to a row of the month, for each row of `from`. It returns nothing when the share of the row
 * is used up, or was granted for another quota.
 */
export const chargeShare = (projectId: string, limit: Limit, now: Date, from: string) => sql`
  update form_usage set used = used + 1 from ${sql.ref(from)}
  where project_id = ${projectId} and month = ${monthOf(now)} and shard = ${ownShard}
    and granted_of is not distinct from ${limit}::int and (${limit}::int is null or used < granted)
  returning used`

/** The use of a month, of which nothing is under way. */
export interface LockedUsage {
  readonly project_id: string
  readonly month: string
  readonly used: number
}

/** Counts the use of the month and locks it. Under the project's lock; waits for submissions that are charged without it. */
export async function lockFormsUsed(tx: Tx, project_id: string, now: Date): Promise<LockedUsage> {
  const month = monthOf(now)
  const lock = () =>
    tx
      .selectFrom('form_usage')
      .select('used')
      .where('project_id', '=', project_id)
      .where('month', '=', month)
      .orderBy('shard')
      .forUpdate()
      .execute()
  let rows = await lock()
  if (rows.length === 0) {
    await sql`
      insert into form_usage (project_id, month, shard)
      select ${project_id}::uuid, ${month}::date, shard from generate_series(0, ${shards - 1}::int) shard`.execute(tx)
    rows = await lock()
  }
  return { project_id, month, used: rows.reduce((sum, { used }) => sum + used, 0) }
}

/** Adds to the use of the month, and shares out what is left of the quota. */
export async function addFormsUsed(
  tx: Tx,
  { project_id, month, used }: LockedUsage,
  limit: Limit,
  amount: number,
): Promise<void> {
  const share = limit === null ? 0 : Math.max(0, Math.floor((limit - used - amount) / shards))
  await sql`
    update form_usage set used = used + added, granted = used + added + ${share}::int, granted_of = ${limit}::int
    from (select no, case when no = ${ownShard} then ${amount}::int else 0 end as added
      from generate_series(0, ${shards - 1}::int) no) shards
    where project_id = ${project_id} and month = ${month} and shard = no
      and (added > 0 or granted <> used + ${share}::int or granted_of is distinct from ${limit}::int)`.execute(tx)
}

/** Charges a submission exactly. Under the project's lock. */
export async function charge(tx: Tx, { config }: Pick<Services, 'config'>, project: ProjectRow, now: Date): Promise<Charge> {
  const limit = config.plans[project.plan].forms_per_month
  const usage = await lockFormsUsed(tx, project.id, now)
  if (limit === null || usage.used < limit) {
    await addFormsUsed(tx, usage, limit, 1)
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
  const hidden = await countSubmissions(tx, { project_id: project.id }, 'hidden')
  if (hidden >= hiddenSubmissionsFactor * limit) return { kind: 'exhausted' }
  const { hidden_no } = await tx
    .updateTable('projects')
    .set((eb) => ({ hidden_no: eb('hidden_no', '+', 1) }))
    .where('id', '=', project.id)
    .returning('hidden_no')
    .executeTakeFirstOrThrow()
  return { kind: 'hidden', hidden_no }
}

/** The most spam that a project keeps. */
export const spamLimit = (monthlyQuota: Limit) =>
  monthlyQuota === null ? maxUnlimitedSpam : hiddenSubmissionsFactor * monthlyQuota
