import { type Kysely, sql } from 'kysely'

/** Form submissions, what they are counted against, and the rates of the form endpoint. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table form_submissions (
      id uuid primary key default uuidv7(),
      -- no foreign key: each check would lock the one row of the project
      project_id uuid not null,
      site_id uuid not null references sites (id),
      status text not null check (status in ('verified', 'spam', 'archive')),
      -- whether the quota of a month or the balance has paid for it
      charged boolean not null,
      -- the place of one that came over the quota among those of its project; it is hidden while projects.revealed_no is lower
      hidden_no bigint check (hidden_no is null or (not charged and status = 'verified')),
      data jsonb not null,
      request_id uuid,
      user_agent text,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create unique index form_submissions_request on form_submissions (site_id, request_id)`.execute(db)
  await sql`create index form_submissions_project on form_submissions (project_id, status, id)`.execute(db)
  await sql`create index form_submissions_site on form_submissions (site_id, status, id)`.execute(db)
  await sql`
    create unique index form_submissions_hidden on form_submissions (project_id, hidden_no) include (site_id)
    where hidden_no is not null`.execute(db)

  await sql`create index form_submissions_spam on form_submissions (created_at) where status = 'spam'`.execute(db)

  await sql`
    alter table projects
      -- the latest number of a hidden submission, and that up to which they are revealed
      add column hidden_no bigint not null default 0,
      add column revealed_no bigint not null default 0 check (revealed_no <= hidden_no)`.execute(db)

  await sql`
    create table site_forms (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      notify_email boolean not null default false,
      -- the submissions in each status; the hidden ones are among the verified
      verified integer not null default 0 check (verified >= 0),
      spam integer not null default 0 check (spam >= 0),
      archive integer not null default 0 check (archive >= 0),
      hidden integer not null default 0 check (hidden >= 0)
    )`.execute(db)
  await sql`create index site_forms_project on site_forms (project_id)`.execute(db)
  await sql`alter table site_forms set (fillfactor = 70)`.execute(db)

  // several rows of each month, so that concurrent submissions rarely wait for each other
  await sql`
    create table form_usage (
      project_id uuid not null,
      month date not null,
      shard smallint not null,
      used integer not null default 0,
      primary key (project_id, month, shard)
    )`.execute(db)
  await sql`alter table form_usage set (fillfactor = 50)`.execute(db)

  await sql`
    create table form_rates (
      -- site:<id> or address:<network>
      key text primary key,
      -- the posts of the last minute, oldest first
      taken_at timestamptz(3)[] not null
    )`.execute(db)
  await sql`alter table form_rates set (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)`.execute(
    db,
  )
}
