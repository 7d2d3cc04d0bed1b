import { type Kysely, sql } from 'kysely'

/**
 * Sites that are closed for all but members, paying members or the subscribers of channels: who the members are, what the owner asks of them, and
 * the channels.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table access_locks
      drop constraint access_locks_mode_check,
      add constraint access_locks_mode_check check (mode in ('password', 'email', 'subscribers', 'members', 'paid'))`.execute(db)
  // the visitor has proved that the address is theirs: a confirmed code lets them finish their registration
  await sql`alter table access_codes add column confirmed_at timestamptz(3)`.execute(db)

  await sql`
    create table member_settings (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      -- whether the owner approves every registration
      moderation boolean not null default true,
      ask_name boolean not null default false,
      name_label text,
      consent_mode text not null default 'none' check (consent_mode in ('none', 'notice', 'checkbox')),
      form_style text not null default 'card' check (form_style in ('card', 'plain')),
      max_seats integer check (max_seats > 0),
      -- visits of an earlier version have to consent again
      consent_version integer not null default 0
    )`.execute(db)

  await sql`
    create table site_documents (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null,
      position integer not null,
      title text not null,
      url text not null,
      unique (site_id, position) deferrable initially deferred
    )`.execute(db)

  await sql`
    create table members (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null,
      -- in lower case
      email text not null,
      name text,
      status text not null check (status in ('pending', 'active', 'rejected', 'blocked')),
      -- of the consent that was given last
      consent_version integer not null default 0,
      registered_at timestamptz(3) not null,
      last_login_at timestamptz(3),
      -- the payment that counts; null before the first, and after a refund
      paid_at timestamptz(3),
      paid_minor bigint,
      paid_currency text,
      paid_provider text,
      -- null for ever
      paid_until timestamptz(3),
      unique (site_id, email),
      check ((paid_at is null) = (paid_minor is null) and (paid_at is null) = (paid_currency is null)
        and (paid_at is null) = (paid_provider is null) and (paid_at is not null or paid_until is null))
    )`.execute(db)
  await sql`create index members_status on members (site_id, status, registered_at)`.execute(db)

  await sql`
    create table member_consents (
      member_id uuid not null references members (id) on delete cascade,
      -- of a document that its owner may have replaced since
      document_id uuid not null,
      at timestamptz(3) not null,
      primary key (member_id, document_id)
    )`.execute(db)

  await sql`
    create table access_prices (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      amount_minor bigint not null check (amount_minor > 0),
      currency text not null,
      -- null for ever
      period_days integer check (period_days > 0),
      provider text not null check (provider in ('manual', 'test', 'yookassa', 'stripe'))
    )`.execute(db)

  await sql`
    create table messenger_channels (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      provider text not null check (provider in ('telegram', 'max')),
      -- what the messenger calls it
      external_id text not null,
      title text not null,
      username text,
      url text,
      bot_is_admin boolean not null,
      connected_at timestamptz(3) not null,
      unique (project_id, provider, external_id)
    )`.execute(db)

  await sql`
    create table access_channels (
      site_id uuid not null references sites (id),
      channel_id uuid not null references messenger_channels (id) on delete cascade,
      primary key (site_id, channel_id)
    )`.execute(db)
  await sql`create index access_channels_channel on access_channels (channel_id)`.execute(db)
}
