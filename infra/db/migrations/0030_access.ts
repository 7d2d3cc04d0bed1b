import { type Kysely, sql } from 'kysely'

/** Sites that only some visitors may see: locks, the addresses that a code lets in, their logins, and the looks of the login page. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table sites
      -- the operator lets the site use emailed codes on any plan
      add column email_access boolean not null default false,
      -- while the site is closed, its preview links answer 404
      add column previews_closed boolean not null default false`.execute(db)

  await sql`
    create table access_locks (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      mode text not null check (mode in ('password', 'email')),
      -- part of every visit: another one signs out everybody, whatever a restored backup says
      epoch uuid not null default gen_random_uuid(),
      sealed_password text,
      expires_at timestamptz(3),
      max_opens integer check (max_opens > 0),
      opens_count integer not null default 0,
      -- of the token with which machines pass
      bypass_sha256 text,
      updated_at timestamptz(3) not null,
      check ((mode = 'password') = (sealed_password is not null))
    )`.execute(db)

  await sql`
    create table access_brands (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      title text,
      description text,
      -- small images, which count like the files of a deploy
      logo_sha256 text,
      logo_size bigint,
      logo_framed boolean not null default false,
      logo_rounded boolean not null default false,
      favicon_mode text not null default 'site' check (favicon_mode in ('site', 'custom', 'none')),
      favicon_sha256 text,
      favicon_size bigint,
      check ((logo_sha256 is null) = (logo_size is null)),
      check ((favicon_sha256 is null) = (favicon_size is null)),
      foreign key (project_id, logo_sha256) references blobs (project_id, sha256),
      foreign key (project_id, favicon_sha256) references blobs (project_id, sha256)
    )`.execute(db)
  await sql`create index access_brands_logo on access_brands (project_id, logo_sha256)`.execute(db)
  await sql`create index access_brands_favicon on access_brands (project_id, favicon_sha256)`.execute(db)

  await sql`
    create table access_emails (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null,
      -- in lower case
      email text not null,
      label text,
      created_at timestamptz(3) not null,
      last_login_at timestamptz(3),
      unique (site_id, email)
    )`.execute(db)

  // a visit of a subject is refused below the generation that is kept here; without a row it is 0
  await sql`
    create table access_generations (
      site_id uuid not null references sites (id),
      subject uuid not null,
      generation integer not null,
      raised_at timestamptz(3) not null,
      primary key (site_id, subject)
    )`.execute(db)

  await sql`
    create table access_codes (
      id uuid primary key default gen_random_uuid(),
      site_id uuid not null references sites (id),
      -- in lower case; whether it is listed decides who may enter, not whether there is a row
      email text not null,
      code_sha256 text not null,
      tries integer not null default 0,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index access_codes_email on access_codes (site_id, email, created_at)`.execute(db)
  await sql`create index access_codes_created on access_codes (created_at)`.execute(db)

  await sql`
    create table access_logins (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      -- null for an address that was not listed
      access_email_id uuid references access_emails (id) on delete cascade,
      email_masked text not null,
      device text not null,
      ip_masked text not null,
      result text not null,
      at timestamptz(3) not null
    )`.execute(db)
  await sql`create index access_logins_email on access_logins (access_email_id, at desc)`.execute(db)
  await sql`create index access_logins_foreign on access_logins (site_id, at desc) where access_email_id is null`.execute(db)
}
