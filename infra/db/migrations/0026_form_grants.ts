import { type Kysely, sql } from 'kysely'

/** Shares of a month's quota of form submissions, so that most are charged without counting what the others have used. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table form_usage
      -- as long as the row has used less, it may be charged without the project's lock
      add column granted integer not null default 0,
      -- the quota that was shared out; null is unlimited
      add column granted_of integer`.execute(db)
}
