import { type Kysely, sql } from 'kysely'

/** Fetches that wait without a permit. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // of a git deploy whose repository was away: when it is fetched again
  await sql`alter table deploys add column fetch_after timestamptz(3)`.execute(db)
}
