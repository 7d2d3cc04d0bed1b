import { sql } from 'kysely'
import type { Quotas } from '../../core/plans.ts'
import { countRevealed } from '../activity.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Tx } from '../transact.ts'
import { addFormsUsed, lockFormsUsed } from './usage.ts'

type Limit = Quotas['forms_per_month']

/** What a project gets for its forms at once. */
export interface NewCapacity {
  /** The monthly quotas before and after. */
  readonly before: Limit
  readonly after: Limit
  /** Submissions that were bought. */
  readonly bought: number
}

/**
 * Reveals as many hidden submissions as a higher quota and what was bought pay for, oldest first. Under the project's lock. It moves one mark, however
 * many there are. The change of a month alone reveals nothing.
 * @param project with its balance after the purchase
 * @returns the balance that is left
 */
export async function revealHidden(
  tx: Tx,
  project: ProjectRow,
  { before, after, bought }: NewCapacity,
  now: Date,
): Promise<number> {
  const { id, form_balance, revealed_no } = project
  const isRaised = before !== null && (after === null || after > before)
  const usage = await lockFormsUsed(tx, id, now)
  const ofMonth = isRaised ? leftOfMonth(after, usage.used) : 0
  const ofBalance = bought > 0 ? Math.max(0, form_balance) : 0
  if (ofMonth !== null && ofMonth + ofBalance === 0) return form_balance
  const { rows } = await sql<{ count: number; last: number | null }>`
    select count(*) as count, max(hidden_no) as last from (
      select hidden_no from form_submissions where project_id = ${id} and hidden_no > ${revealed_no}
      order by hidden_no limit ${ofMonth === null ? null : ofMonth + ofBalance}) revealed`.execute(tx)
  const { count = 0, last = null } = rows[0] ?? {}
  if (last === null) return form_balance
  const takenOfMonth = ofMonth === null ? count : Math.min(count, ofMonth)
  if (takenOfMonth > 0) await addFormsUsed(tx, usage, after, takenOfMonth)
  await tx.updateTable('projects').set({ revealed_no: last }).where('id', '=', id).execute()
  await sql`
    update site_forms f set hidden = (
      select count(*) from form_submissions s where s.project_id = ${id} and s.hidden_no > ${last} and s.site_id = f.site_id)
    where f.project_id = ${id} and f.hidden > 0`.execute(tx)
  await countRevealed(tx, id, revealed_no, last)
  return form_balance - (count - takenOfMonth)
}

/** Null when the quota is unlimited. */
const leftOfMonth = (limit: Limit, used: number): Limit => (limit === null ? null : Math.max(0, limit - used))
