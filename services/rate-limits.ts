import { sql } from 'kysely'
import type { Db } from '../infra/db/database.ts'

/** How often a project may do something: at most `limit` times, at least 1, within any `periodMs`, at most a day. */
export interface Allowance {
  readonly project_id: string
  /** The action, and its object where each object has an allowance of its own: `domain_adds`, `mail:domain_live:example.com`. */
  readonly kind: string
  readonly limit: number
  readonly periodMs: number
}

/**
 * Takes one from the allowance. Undefined when it was taken, otherwise the instant from which the next one is available. One statement decides
 * for all processes, and the row stays locked until the transaction ends, so take it last. Instants beyond the period come from a wrong clock,
 * and are ignored.
 */
export async function takeAllowance(db: Db, allowance: Allowance, now: Date): Promise<Date | undefined> {
  const { project_id, kind, limit, periodMs } = allowance
  const recent = sql`
    (select at from unnest(allowances.taken_at) at
      where at > ${new Date(now.getTime() - periodMs)} and at <= ${new Date(now.getTime() + periodMs)} order by at)`
  const { rows: taken } = await sql`
    insert into allowances (project_id, kind, taken_at) values (${project_id}, ${kind}, array[${now}::timestamptz])
    on conflict (project_id, kind) do update set taken_at = array${recent} || excluded.taken_at
    where (select count(*) from ${recent} recent) < ${limit}
    returning kind`.execute(db)
  if (taken.length > 0) return undefined
  const { rows } = await sql<{ at: Date }>`
    select recent.at from allowances, lateral ${recent} recent
    where project_id = ${project_id} and kind = ${kind} order by recent.at desc offset ${limit - 1} limit 1`.execute(db)
  return new Date((rows[0]?.at ?? now).getTime() + periodMs)
}
