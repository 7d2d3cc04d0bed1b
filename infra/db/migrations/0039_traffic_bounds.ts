import { type Kysely, sql } from 'kysely'

/** Bounds what visitors can make a site store of a day, and marks which days are rolled up. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table traffic_days
      -- the rows of traffic_seen that the site caused; no more are added beyond a limit
      add column seen_keys bigint not null default 0,
      -- whether the tops of the day are cut to those that are shown; a late segment resets it
      add column rolled_up boolean not null default false`.execute(db)
  await sql`create index traffic_days_roll_up on traffic_days (rolled_up, day)`.execute(db)
  // each row of the running day is changed several times a second
  await sql`alter table traffic_days set (fillfactor = 50)`.execute(db)
  await sql`alter table traffic_tops set (fillfactor = 70)`.execute(db)
}
