import { type Kysely, sql } from 'kysely'

/** How many hits of sites each run of an edge could not count. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table traffic_streams add column dropped_hits bigint not null default 0`.execute(db)
}
