import { type Kysely, sql } from 'kysely'

/** The logs of builds are found by the id of their deploy. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deploys drop column log_sha256`.execute(db)
}
