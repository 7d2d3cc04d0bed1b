import { type Kysely, sql } from 'kysely'

/** Notifications of projects; outbound webhooks, the events that they are called for, and their deliveries. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table notifications (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      kind text not null,
      title text not null,
      message text not null,
      -- what it is about; may be gone
      site_id uuid,
      deploy_id uuid,
      created_at timestamptz(3) not null,
      read_at timestamptz(3)
    )`.execute(db)
  await sql`create index notifications_project on notifications (project_id, id)`.execute(db)
  await sql`create index notifications_unread on notifications (project_id, id) where read_at is null`.execute(db)
  await sql`create index notifications_age on notifications (created_at)`.execute(db)

  await sql`
    create table webhooks (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      -- null: events of all sites
      site_id uuid references sites (id) on delete cascade,
      url text not null,
      secret_sealed text not null,
      events text[] not null check (events <> '{}'),
      enabled boolean not null default true,
      -- why the platform has disabled it
      disabled_reason text check (not enabled or disabled_reason is null),
      -- the first failed try since the latest success
      failing_since timestamptz(3),
      -- when an event was last not delivered, because too many deliveries were waiting
      overflowed_at timestamptz(3),
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index webhooks_project on webhooks (project_id)`.execute(db)
  await sql`create index webhooks_site on webhooks (site_id) where site_id is not null`.execute(db)

  await sql`
    create table webhook_events (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      type text not null,
      data jsonb not null,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index webhook_events_project on webhook_events (project_id)`.execute(db)
  await sql`create index webhook_events_age on webhook_events (created_at)`.execute(db)

  await sql`
    create table webhook_deliveries (
      id uuid primary key default uuidv7(),
      webhook_id uuid not null references webhooks (id) on delete cascade,
      event_id uuid not null references webhook_events (id) on delete cascade,
      project_id uuid not null,
      -- of each try: when it ended, the status of the response, its duration, and what went wrong
      tries jsonb not null default '[]',
      -- null while it is under way
      outcome text,
      -- set while a try is under way
      trying_since timestamptz(3),
      -- set while it waits until another try of the project ends
      waiting_since timestamptz(3),
      -- when its workflow looks at it next; it is restarted when it does not
      next_look_at timestamptz(3),
      created_at timestamptz(3) not null,
      ended_at timestamptz(3),
      check ((outcome is null) = (ended_at is null))
    )`.execute(db)
  await sql`create index webhook_deliveries_webhook on webhook_deliveries (webhook_id, id)`.execute(db)
  await sql`create index webhook_deliveries_event on webhook_deliveries (event_id)`.execute(db)
  await sql`create index webhook_deliveries_open on webhook_deliveries (webhook_id) where outcome is null`.execute(db)
  await sql`create index webhook_deliveries_due on webhook_deliveries (id) where outcome is null`.execute(db)
  await sql`create index webhook_deliveries_trying on webhook_deliveries (project_id) where trying_since is not null`.execute(db)
  await sql`
    create index webhook_deliveries_waiting on webhook_deliveries (project_id, waiting_since)
    where waiting_since is not null`.execute(db)
}
