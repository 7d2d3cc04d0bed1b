import { type Kysely, sql } from 'kysely'

/** Blobs that are uploaded before the deploy that will contain them, and what the sweeper looks up. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table blobs
      -- uploaded or asked for by its owner, and not in a deploy since
      add column staged boolean not null default false,
      -- of a blob that no deploy contains: since when, or when its owner asked for it last
      add column touched_at timestamptz(3) not null default now()`.execute(db)
  // every deploy counts up all its blobs: with room in the pages, and no index on what it changes, no index is written (a third less time
  // for 2,000 blobs). The sweeper reads the whole table for that, once an hour.
  await sql`alter table blobs set (fillfactor = 70)`.execute(db)
  await sql`create index deploys_source on deploys (source_sha256) where source_sha256 is not null`.execute(db)
  await sql`
    create index deploys_manifest on deploys (manifest_sha256)
    where manifest_sha256 is not null and not artifacts_purged`.execute(db)
}
