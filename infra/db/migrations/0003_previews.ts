import { type Kysely, sql } from 'kysely'

/** Preview links. The token itself is derived from the secret key and the generation; only its hash is kept. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table previews (
      deploy_id uuid primary key references deploys (id),
      site_id uuid not null references sites (id),
      -- grows when the link ends, so that the next one is another
      generation integer not null default 1,
      -- both null while there is no link
      token_sha256 text,
      issued_at timestamptz(3),
      check ((token_sha256 is null) = (issued_at is null))
    )`.execute(db)
  await sql`create index previews_live on previews (site_id) where token_sha256 is not null`.execute(db)
  await sql`
    create index deploys_inactive on deploys (site_id) where status in ('ready', 'superseded') and not artifacts_purged`.execute(
    db,
  )
}
