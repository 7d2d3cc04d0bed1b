import { type Kysely, sql } from 'kysely'

/** Sites whose pages have one address each. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table sites add column canonical_urls boolean not null default false`.execute(db)
}
