import { type Kysely, sql } from 'kysely'

/** Channels that are being connected, logins through a bot, and the subscribers who have logged in. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table messenger_connections (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      provider text not null check (provider in ('telegram', 'max')),
      nonce_sha256 text not null unique,
      -- who has opened the link; null before
      user_id text,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index messenger_connections_project on messenger_connections (project_id)`.execute(db)
  await sql`create index messenger_connections_user on messenger_connections (provider, user_id)`.execute(db)

  await sql`
    create table messenger_logins (
      -- named by the form
      id uuid primary key,
      site_id uuid not null references sites (id),
      provider text not null check (provider in ('telegram', 'max')),
      -- where the login began, and where it must end
      host text not null,
      nonce_sha256 text not null unique,
      -- who has opened the link; null before
      user_id text,
      -- of the id and the code; null before the link was opened
      code_sha256 text,
      -- how often a code was sent, and how often one was entered
      sends integer not null default 0,
      tries integer not null default 0,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index messenger_logins_site on messenger_logins (site_id)`.execute(db)

  await sql`
    create table subscribers (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      provider text not null check (provider in ('telegram', 'max')),
      -- what the messenger calls the person
      user_id text not null,
      created_at timestamptz(3) not null,
      last_login_at timestamptz(3) not null,
      -- when the messenger has last said that the person is a subscriber
      member_at timestamptz(3) not null,
      -- until when the messenger need not be asked again; null once it has said that the person is no subscriber
      member_until timestamptz(3),
      unique (site_id, provider, user_id)
    )`.execute(db)
}
