import { type Kysely, sql } from 'kysely'

/** What a look through the files of a deploy found; null: they have not been looked through. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deploys add column recommendations jsonb`.execute(db)
}
