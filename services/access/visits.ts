import { sql } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

/** The generations that travel with the route of a site to every edge. */
const maxGenerations = 200

/** The visits that subjects have while the site is closed in one of the modes; those from before a switch of its mode are over. */
export interface VisitsOf {
  readonly site_id: string
  readonly modes: readonly AccessMode[]
}

/** Ends the visits of subjects and forgets from where they came, under the lock of the site; the caller bumps the route. */
export async function endVisits(tx: Tx, { site_id, modes }: VisitsOf, subjects: readonly string[], now: Date): Promise<void> {
  await tx.deleteFrom('access_networks').where('site_id', '=', site_id).where('subject', 'in', subjects).execute()
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('access_generations')
    .columns(['site_id', 'subject', 'generation', 'raised_at'])
    .expression((eb) =>
      eb
        .selectFrom('access_locks')
        .select(['site_id', sql<string>`unnest(${subjects}::uuid[])`.as('subject'), sql<number>`1`.as('generation')])
        .select(sql<Date>`${now}::timestamptz`.as('raised_at'))
        .where('site_id', '=', site_id)
        .where('mode', 'in', modes),
    )
    .onConflict((conflict) =>
      conflict.columns(['site_id', 'subject']).doUpdateSet({
        generation: sql<number>`access_generations.generation + 1`,
        raised_at: now,
      }),
    )
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) return
  const { count } = await tx
    .selectFrom('access_generations')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', site_id)
    .executeTakeFirstOrThrow()
  if (count > maxGenerations) await signOutEverybody(tx, { site_id, modes })
}

/**
 * The lowest generation of the visits of a subject that is let in. A caller that grants a visit has locked the subject's row, so that nobody ends the
 * visit before it is granted.
 */
export async function generationOf(db: Db, siteId: string, subject: string): Promise<number> {
  const raised = await db
    .selectFrom('access_generations')
    .select('generation')
    .where('site_id', '=', siteId)
    .where('subject', '=', subject)
    .executeTakeFirst()
  return raised?.generation ?? 0
}

/** Ends all visits of a site while it is closed in one of the modes, under its lock; the caller bumps the route. */
export async function signOutEverybody(tx: Tx, { site_id, modes }: VisitsOf): Promise<void> {
  await tx
    .updateTable('access_locks')
    .set({ epoch: sql<string>`gen_random_uuid()` })
    .where('site_id', '=', site_id)
    .where('mode', 'in', modes)
    .execute()
  await forgetGenerations(tx, site_id)
}

/** Visits of an earlier epoch are over, whatever their generation. */
export async function forgetGenerations(tx: Tx, siteId: string): Promise<void> {
  await tx.deleteFrom('access_generations').where('site_id', '=', siteId).execute()
}
