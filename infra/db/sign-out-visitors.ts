import { sql } from 'kysely'
import type { Db } from './database.ts'

/**
 * Gives the lock of every site another epoch and its route the next version, so that no visit from before is valid: a restored database does not
 * know who was removed after its backup. May be repeated.
 */
export async function signOutAllVisitors(tx: Db): Promise<void> {
  await tx.updateTable('access_locks').set({ epoch: sql<string>`gen_random_uuid()` }).execute()
  await tx.deleteFrom('access_generations').execute()
  await sql`
    update sites set version = version + 1, route_changed_at = clock_timestamp()
    where id in (select site_id from access_locks)`.execute(tx)
}
