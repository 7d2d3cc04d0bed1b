import { type Kysely, sql } from 'kysely'

/** Permanent links of kept deploys. Their tokens are derived from the secret key, so that only the option is stored. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table sites
      add column permanent_links boolean not null default false,
      -- grows when the option is switched off, so that links which have ended never open again
      add column permanent_links_generation integer not null default 1`.execute(db)
}
