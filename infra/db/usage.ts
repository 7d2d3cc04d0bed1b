import { sql } from 'kysely'
import type { Db } from './database.ts'

/** Deploys that the project had accepted since then, and when the oldest of them was. */
export async function countDeploysSince(db: Db, projectId: string, since: Date): Promise<{ count: number; oldest: Date | null }> {
  return await db
    .selectFrom('deploys')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.min('created_at').as('oldest')])
    .where('project_id', '=', projectId)
    .where('created_at', '>', since)
    .executeTakeFirstOrThrow()
}

const monthOf = (now: Date) => `${now.toISOString().slice(0, 7)}-01`

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
