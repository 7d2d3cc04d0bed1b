import { type Kysely, sql } from 'kysely'

/** The tops of a site are read for one kind and many days: 365 days take half of the time when the kind comes before the day. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table traffic_tops drop constraint traffic_tops_pkey, add primary key (site_id, kind, day, value)`.execute(db)
}
