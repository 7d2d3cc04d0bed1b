import { type Kysely, sql } from 'kysely'

/** Blobs that are uploaded before the deploy that will contain them, and what the sweeper looks up. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table blobs
      -- uploaded or asked for by its owner, and not in a deploy since
      add column staged boolean not null default false,
      -- of a blob that no deploy contains: since when, or when its owner asked for it last
      add column touched_at timestamptz(3) not null default now()`.execute(db)
  await sql`create index blobs_unused on blobs (touched_at) where deploys = 0`.execute(db)
  await sql`create index deploys_source on deploys (source_sha256) where source_sha256 is not null`.execute(db)
  await sql`
    create index deploys_manifest on deploys (manifest_sha256)
    where manifest_sha256 is not null and not artifacts_purged`.execute(db)
}
