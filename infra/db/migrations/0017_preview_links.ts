import { type Kysely, sql } from 'kysely'

/** One table of preview links: those of deploys had a table of their own, those of branches were columns of `git_previews`. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table preview_links (
      -- of the deploy or the branch preview that it is the link of: tokens are derived from it and the generation
      id uuid primary key,
      site_id uuid not null references sites (id) on delete cascade,
      -- null: the deploy's own link
      git_preview_id uuid unique references git_previews (id) on delete cascade,
      -- the deploy that it shows
      deploy_id uuid references deploys (id),
      -- grows when the link ends, so that the next one is another
      generation integer not null default 1,
      -- both null while there is no link
      token_sha256 text unique,
      issued_at timestamptz(3),
      check (id is not distinct from coalesce(git_preview_id, deploy_id)),
      check ((token_sha256 is null) = (issued_at is null)),
      check (token_sha256 is null or deploy_id is not null)
    )`.execute(db)
  await sql`create index preview_links_live on preview_links (site_id) where token_sha256 is not null`.execute(db)
  await sql`create index preview_links_deploy on preview_links (deploy_id) where deploy_id is not null`.execute(db)

  await sql`
    insert into preview_links (id, site_id, deploy_id, generation, token_sha256, issued_at)
    select deploy_id, site_id, deploy_id, generation, token_sha256, issued_at from previews`.execute(db)
  // one that never had a link has no generation to go on from
  await sql`
    insert into preview_links (id, site_id, git_preview_id, deploy_id, generation, token_sha256, issued_at)
    select id, site_id, id, case when token_sha256 is not null then deploy_id end, generation, token_sha256,
      case when token_sha256 is not null then updated_at end
    from git_previews where token_sha256 is not null or generation > 1`.execute(db)
  await sql`drop table previews`.execute(db)
  await sql`alter table git_previews drop column deploy_id, drop column generation, drop column token_sha256`.execute(db)
}
