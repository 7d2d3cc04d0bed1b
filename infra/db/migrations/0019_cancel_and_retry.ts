import { type Kysely, sql } from 'kysely'

/** Titles of deploys, cancellations, and retries of the same source. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table deploys
      -- chosen by the caller; the title of a git deploy is its commit message
      add column title text,
      add column cancelled boolean not null default false,
      -- the commit to fetch instead of the head of the branch
      add column fetch_commit text`.execute(db)
  await sql`create index deploys_site_status on deploys (site_id, status, seq)`.execute(db)
  // the failed deploys that can be retried
  await sql`
    create index deploys_kept_sources on deploys (site_id, seq)
      where status = 'failed' and not artifacts_purged and (source_sha256 is not null or manifest_sha256 is not null)`.execute(db)
}
