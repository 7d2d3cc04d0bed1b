import { type Kysely, sql } from 'kysely'

/** Connected repositories, what their forges deliver, previews of their branches and pull requests, and reports to the forges. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table git_connections (
      site_id uuid primary key references sites (id),
      project_id uuid not null references projects (id),
      repo_url text not null,
      -- the one that goes live
      branch text not null,
      token_sealed text,
      install_command text,
      build_command text,
      output_dir text,
      root_dir text,
      branch_previews boolean not null,
      pull_request_previews boolean not null,
      watch_paths text[] not null,
      webhook_secret_sealed text,
      webhook_created_at timestamptz(3),
      -- of the latest delivery that was proved: which forge speaks
      forge text,
      last_delivery jsonb,
      -- why a report to the forge was given up; null when the latest one arrived
      last_report jsonb,
      deploy_hook_sha256 text unique,
      deploy_hook_created_at timestamptz(3),
      deploy_hook_used_at timestamptz(3),
      created_at timestamptz(3) not null,
      updated_at timestamptz(3) not null,
      check ((webhook_secret_sealed is null) = (webhook_created_at is null)),
      check ((deploy_hook_sha256 is null) = (deploy_hook_created_at is null))
    )`.execute(db)

  await sql`
    create table git_deliveries (
      site_id uuid not null references sites (id) on delete cascade,
      delivery_id text not null,
      received_at timestamptz(3) not null,
      primary key (site_id, delivery_id)
    )`.execute(db)
  await sql`create index git_deliveries_received on git_deliveries (received_at)`.execute(db)

  await sql`
    create table git_previews (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id) on delete cascade,
      project_id uuid not null references projects (id),
      -- the branch, or pull:<number> for a fork
      ref text not null,
      -- where its commits are in the connected repository
      fetch_ref text not null,
      pull_request integer,
      -- the head branch, for people
      branch text not null,
      from_fork boolean not null,
      approved boolean not null,
      -- the latest that the forge has told of
      head_commit text,
      -- the deploy that the link shows
      deploy_id uuid references deploys (id) on delete set null,
      -- grows when the link ends, so that the next one is another
      generation integer not null default 1,
      token_sha256 text,
      -- the latest push; the link ends some time after it
      updated_at timestamptz(3) not null,
      closed_at timestamptz(3),
      -- the comment at the forge, and what was last written into it
      comment_id text,
      commented text,
      unique (site_id, ref),
      check (token_sha256 is null or deploy_id is not null)
    )`.execute(db)
  await sql`create index git_previews_live on git_previews (site_id) where token_sha256 is not null`.execute(db)
  await sql`create index git_previews_deploy on git_previews (deploy_id) where deploy_id is not null`.execute(db)

  // null: a deploy of the branch that goes live
  await sql`alter table deploys add column git_preview_id uuid references git_previews (id) on delete set null`.execute(db)
  await sql`create index deploys_git_preview on deploys (git_preview_id, seq) where git_preview_id is not null`.execute(db)

  await sql`
    create table git_reports (
      deploy_id uuid primary key references deploys (id) on delete cascade,
      site_id uuid not null references sites (id) on delete cascade,
      -- the state of the latest status that was sent or given up
      reported text,
      -- what the forge calls its record of the deployment
      deployment_id text
    )`.execute(db)
  await sql`create index git_reports_site on git_reports (site_id)`.execute(db)
  // what may have to be told yet: of most deploys everything was
  await sql`
    create index git_reports_open on git_reports (site_id)
      where reported is null or reported in ('pending', 'success')`.execute(db)
}
