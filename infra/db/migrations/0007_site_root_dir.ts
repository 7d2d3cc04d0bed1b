import { type Kysely, sql } from 'kysely'

/** The folder of a source that is built: sites in one repository with others. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table sites add column root_dir text`.execute(db)
}
