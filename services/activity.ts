import { type RawBuilder, sql } from 'kysely'
import { moscowDay } from '../core/traffic-days.ts'
import type { Db } from '../infra/db/database.ts'

// What is counted where it happens. The edges count into other rows, so that nobody waits for their transactions.

/** The part of a statement that counts a submission that is shown, for the row of `from`. */
export const countSubmission = (site_id: string, at: Date, from: string): RawBuilder<unknown> => sql`
  insert into activity_days (site_id, day, form_submissions)
  select ${site_id}::uuid, ${moscowDay(at.getTime())}::date, 1 from ${sql.ref(from)}
  on conflict (site_id, day) do update set form_submissions = activity_days.form_submissions + 1`

/**
 * Counts the submissions of a project that are revealed, on the days on which they were received. Under the project's lock.
 * @param from the number after which the revealed ones begin
 * @param to the last number
 */
export async function countRevealed(tx: Db, projectId: string, from: number, to: number): Promise<void> {
  await sql`
    insert into activity_days (site_id, day, form_submissions)
    select site_id, (created_at at time zone 'UTC' + interval '3 hours')::date as day, count(*)
    from form_submissions where project_id = ${projectId} and hidden_no > ${from} and hidden_no <= ${to}
    group by site_id, day order by site_id, day
    on conflict (site_id, day) do update
    set form_submissions = activity_days.form_submissions + excluded.form_submissions`.execute(tx)
}

/** Counts that a deploy has become the live one of the site. The row stays locked until the transaction ends, so count last. */
export async function countPublish(tx: Db, site_id: string, at: Date): Promise<void> {
  await tx
    .insertInto('activity_days')
    .values({ site_id, day: moscowDay(at.getTime()), publishes: 1 })
    .onConflict((on) =>
      on.columns(['site_id', 'day']).doUpdateSet((eb) => ({ publishes: eb('activity_days.publishes', '+', 1) })),
    )
    .execute()
}
