import { type Kysely, sql } from 'kysely'

/** Which files of live deploys have brotli and zstd variants. Those of deploys that are live already are made after the update. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // whether its variants were made for this project, or would not be worth keeping
  await sql`alter table blobs add column compressed boolean not null default false`.execute(db)
  // since when files of the live deploy wait for their variants; null when none does
  await sql`alter table deploys add column compression_due_at timestamptz(3)`.execute(db)
  await sql`
    update deploys set compression_due_at = now() from sites
    where sites.active_deploy_id = deploys.id and not deploys.artifacts_purged`.execute(db)
  await sql`
    create index deploys_compression_due on deploys (project_id, compression_due_at) where compression_due_at is not null`.execute(
    db,
  )
}
