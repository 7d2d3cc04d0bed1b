import { sql } from 'kysely'
import { monthOf } from '../../core/months.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

/**
 * Counts the deploys of the project that were accepted since the instant, and returns the instant of the oldest. Deploys of removed sites do not
 * count: they are older, unless the trash period is shorter than the time in question.
 */
export async function countDeploysSince(db: Db, projectId: string, since: Date): Promise<{ count: number; oldest: Date | null }> {
  return await db
    .selectFrom('deploys')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.min('created_at').as('oldest')])
    .where('project_id', '=', projectId)
    .where('created_at', '>', since)
    .executeTakeFirstOrThrow()
}

/** Build minutes of the UTC calendar month that `now` lies in. */
export async function buildMinutes(db: Db, projectId: string, now: Date): Promise<number> {
  const row = await db
    .selectFrom('build_minutes')
    .select('minutes')
    .where('project_id', '=', projectId)
    .where('month', '=', monthOf(now))
    .executeTakeFirst()
  return row?.minutes ?? 0
}

export async function addBuildMinutes(db: Db, projectId: string, now: Date, minutes: number): Promise<void> {
  await db
    .insertInto('build_minutes')
    .values({ project_id: projectId, month: monthOf(now), minutes })
    .onConflict((conflict) =>
      conflict.columns(['project_id', 'month']).doUpdateSet({ minutes: sql`build_minutes.minutes + excluded.minutes` }),
    )
    .execute()
}

/** Build minutes of all projects in the UTC calendar month that `now` lies in. */
export async function allBuildMinutes(db: Db, now: Date): Promise<number> {
  const { minutes } = await db
    .selectFrom('build_minutes')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<number>('minutes'), sql<number>`0`).as('minutes'))
    .where('month', '=', monthOf(now))
    .executeTakeFirstOrThrow()
  return minutes
}

/** Counts one build that has ended; the totals only grow. */
export async function addBuildTotal(tx: Tx, outcome: string, milliseconds: number): Promise<void> {
  await tx
    .insertInto('build_totals')
    .values({ outcome, builds: 1, milliseconds })
    .onConflict((conflict) =>
      conflict.column('outcome').doUpdateSet({
        builds: sql`build_totals.builds + 1`,
        milliseconds: sql`build_totals.milliseconds + excluded.milliseconds`,
      }),
    )
    .execute()
}

export function listBuildTotals(db: Db): Promise<{ outcome: string; builds: number; milliseconds: number }[]> {
  return db.selectFrom('build_totals').selectAll().execute()
}
