import { type Kysely, sql } from 'kysely'

/** The rates of logins to closed sites and of the codes that they are emailed. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table access_rates (
      -- what is limited, and whose it is: a network, a site or the hash of an address
      key text primary key,
      -- the tries that still count, oldest first
      taken_at timestamptz(3)[] not null
    )`.execute(db)
  await sql`alter table access_rates set (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)`.execute(
    db,
  )
}
