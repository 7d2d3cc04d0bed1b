import { type Kysely, sql } from 'kysely'

/** One row: the installation, and a random value that a restored backup replaces, so that edges do not compare its versions with those they know. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table installation (
      id uuid primary key default gen_random_uuid(),
      incarnation uuid not null default gen_random_uuid()
    )`.execute(db)
  await sql`create unique index installation_is_one on installation ((true))`.execute(db)
  await sql`insert into installation default values`.execute(db)
}
