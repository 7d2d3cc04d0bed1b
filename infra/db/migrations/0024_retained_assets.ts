import { type Kysely, sql } from 'kysely'

/** Hashed assets of superseded deploys, which go on answering for a while. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table sites
      add column asset_retention_days integer not null default 0 check (asset_retention_days between 0 and 30),
      -- the manifest of the site's retained assets, which the edges read; null when it has none
      add column retained_sha256 text`.execute(db)
  await sql`create index sites_retained on sites (retained_sha256) where retained_sha256 is not null`.execute(db)
  await sql`
    create table retained_assets (
      site_id uuid not null references sites (id),
      path text collate "C" not null,
      project_id uuid not null,
      -- the deploy that was live with the asset until then
      deploy_id uuid not null references deploys (id),
      sha256 text not null,
      size bigint not null,
      retained_at timestamptz(3) not null,
      primary key (site_id, path),
      -- each row counts as one of the deploys that contain the blob
      foreign key (project_id, sha256) references blobs (project_id, sha256)
    )`.execute(db)
  await sql`create index retained_assets_blob on retained_assets (project_id, sha256)`.execute(db)
  await sql`create index retained_assets_deploy on retained_assets (deploy_id)`.execute(db)
}
