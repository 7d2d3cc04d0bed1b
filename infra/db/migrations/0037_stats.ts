import { type Kysely, sql } from 'kysely'

/** Statistics of sites by day. Days are those of Moscow. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table traffic_streams (
      -- of one run of an edge
      stream_id uuid primary key,
      -- the number of the last segment that was applied
      applied bigint not null,
      applied_at timestamptz(3) not null
    )`.execute(db)

  await sql`
    create table traffic_days (
      site_id uuid not null references sites (id),
      day date not null,
      views bigint not null default 0,
      visitors bigint not null default 0,
      bytes bigint not null default 0,
      human_views bigint not null default 0,
      human_visitors bigint not null default 0,
      human_bytes bigint not null default 0,
      primary key (site_id, day)
    )`.execute(db)

  await sql`
    create table activity_days (
      site_id uuid not null references sites (id),
      day date not null,
      form_submissions bigint not null default 0,
      publishes bigint not null default 0,
      primary key (site_id, day)
    )`.execute(db)

  // a bounded number of values for each site, day and kind; the rest is one row
  await sql`
    create table traffic_tops (
      site_id uuid not null,
      day date not null,
      kind text not null check (kind in ('page', 'source', 'download', 'not_found', 'device', 'bot_reason')),
      value text not null,
      hits bigint not null,
      visitors bigint not null,
      primary key (site_id, day, kind, value)
    )`.execute(db)

  // hashes of a visitor and of what the visitor is counted for, until the day is over
  await sql`
    create table traffic_seen (
      day date not null,
      key bytea not null,
      primary key (day, key)
    )`.execute(db)

  // unlogged, so that no physical backup has a salt; edges write the salts that they know again after a crash
  await sql`
    create unlogged table visitor_salts (
      day date primary key,
      sealed_salt text not null
    )`.execute(db)

  await sql`
    create unlogged table live_visitors (
      site_id uuid not null,
      visitor bytea not null,
      seen_at timestamptz(3) not null,
      primary key (site_id, visitor)
    )`.execute(db)
  await sql`create index live_visitors_seen_at on live_visitors (seen_at)`.execute(db)

  await sql`
    create unlogged table live_paths (
      site_id uuid not null,
      minute timestamptz(3) not null,
      path text not null,
      hits bigint not null,
      primary key (site_id, minute, path)
    )`.execute(db)
  await sql`create index live_paths_minute on live_paths (minute)`.execute(db)
}
