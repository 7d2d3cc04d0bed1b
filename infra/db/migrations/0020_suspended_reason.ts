import { type Kysely, sql } from 'kysely'

/** Why a project is suspended, and the erasure of whole projects. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table projects
      add column suspended_reason text check (suspended or suspended_reason is null),
      -- its sites are being removed, and it goes with the last of them
      add column erasing boolean not null default false check (suspended or not erasing)`.execute(db)
  // the names of an erased project stay reserved until their time is over
  await sql`alter table subdomains drop constraint subdomains_project_id_fkey`.execute(db)
}
