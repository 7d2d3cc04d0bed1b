import { sql } from 'kysely'
import type { Db } from './database.ts'

/** Notified when the incarnation is renewed. */
export const incarnationChannel = 'installation'

/**
 * The history of a database, within which versions of rows may be compared. It changes when a backup was restored ({@link renewIncarnation}), when a
 * standby has taken over (a new timeline), and when a dump was loaded (into another cluster or database, or by another transaction). Incarnations
 * have no order: a restored database does not know which ones came after its backup. The timeline is that of the log being written;
 * `pg_control_checkpoint()` keeps the former one until the first checkpoint after a promotion.
 */
export async function readIncarnation(db: Db): Promise<string> {
  const { rows } = await sql<{ incarnation: string }>`
    select concat_ws('.', (select system_identifier from pg_control_system()), left(pg_walfile_name(pg_current_wal_lsn()), 8),
      (select oid from pg_database where datname = current_database()), xmin, incarnation) as incarnation
    from installation`.execute(db)
  const [row] = rows
  if (!row) throw new Error('the table installation has lost its row')
  return row.incarnation
}

/** Gives the database another incarnation, so that edges replace all they know. To be called in the first transaction after a backup was restored. */
export async function renewIncarnation(tx: Db): Promise<void> {
  await sql`update installation set incarnation = gen_random_uuid()`.execute(tx)
  await sql`select pg_notify(${incarnationChannel}, '')`.execute(tx)
}
