import { type Kysely, sql } from 'kysely'

/** Projects, keys, sites, deploys, blobs and the starts of workflows. Ids are UUIDv7 made by PostgreSQL. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table projects (
      id uuid primary key default uuidv7(),
      name text not null,
      owner_email text not null,
      plan text not null,
      suspended boolean not null default false,
      form_balance integer not null default 0,
      created_at timestamptz(3) not null default now()
    )`.execute(db)

  await sql`
    create table keys (
      id text primary key,
      project_id uuid not null references projects (id),
      name text not null,
      scope text not null,
      secret_sha256 bytea not null,
      created_at timestamptz(3) not null default now(),
      last_used_at timestamptz(3),
      revoked_at timestamptz(3)
    )`.execute(db)
  await sql`create index keys_project on keys (project_id)`.execute(db)

  await sql`
    create table sites (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      name text not null,
      description text,
      subdomain text not null unique,
      enabled boolean not null default true,
      checks_enabled boolean not null default true,
      deletion_scheduled_at timestamptz(3),
      active_deploy_id uuid,
      last_deploy_seq integer not null default 0,
      -- the edge applies a route only when its version is higher than the one it knows
      version bigint not null default 1,
      route_changed_at timestamptz not null default now(),
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now()
    )`.execute(db)
  await sql`create index sites_project on sites (project_id)`.execute(db)
  await sql`create index sites_route_changed on sites (route_changed_at)`.execute(db)

  await sql`
    create table deploys (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null references projects (id),
      -- the order in which the deploys of a site were accepted
      seq integer not null,
      status text not null default 'queued',
      attempt integer not null default 1,
      -- the workflow run that owns the current attempt
      run_id text,
      source_kind text not null,
      build_mode text,
      activate boolean not null,
      is_preview boolean not null,
      artifacts_purged boolean not null default false,
      error text,
      skipped_paths text[] not null default '{}',
      file_count integer,
      total_bytes bigint,
      source_sha256 text,
      source_bytes bigint,
      manifest_sha256 text,
      log_sha256 text,
      git jsonb,
      build_seconds integer,
      created_at timestamptz(3) not null default now(),
      started_at timestamptz(3),
      finished_at timestamptz(3),
      activated_at timestamptz(3),
      unique (site_id, seq)
    )`.execute(db)
  await sql`create index deploys_project_created on deploys (project_id, created_at)`.execute(db)
  await sql`create index deploys_open on deploys (created_at) where status in ('queued', 'building', 'ready')`.execute(db)
  await sql`alter table sites add foreign key (active_deploy_id) references deploys (id)`.execute(db)

  await sql`
    create table blobs (
      project_id uuid not null references projects (id),
      sha256 text not null,
      size bigint not null,
      -- unpurged deploys that contain the blob; the row goes with the last of them
      deploys integer not null,
      primary key (project_id, sha256)
    )`.execute(db)
  await sql`create index blobs_sha256 on blobs (sha256)`.execute(db)

  await sql`
    create table build_minutes (
      project_id uuid not null references projects (id),
      -- first day of a UTC calendar month
      month date not null,
      minutes integer not null,
      primary key (project_id, month)
    )`.execute(db)

  await sql`
    create table workflow_starts (
      workflow_id text primary key,
      start jsonb not null,
      created_at timestamptz(3) not null default now()
    )`.execute(db)
  await sql`create index workflow_starts_created on workflow_starts (created_at)`.execute(db)
}
