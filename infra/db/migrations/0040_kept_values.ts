import { type Kysely, sql } from 'kysely'

/** How many hits of sites each run of an edge could not count, and how many values the tops of a day keep. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table traffic_streams add column dropped_hits bigint not null default 0`.execute(db)
  // null until the tops are cut to a number of values of each kind, and again after a late segment
  await sql`alter table traffic_days add column kept_values integer, drop column rolled_up`.execute(db)
  await sql`create index traffic_days_kept_values on traffic_days (kept_values, day)`.execute(db)
}
