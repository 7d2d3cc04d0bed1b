import { type Kysely, sql } from 'kysely'

/** The failed tries of starts and signals, and the activities that keep failing. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table workflow_starts
      add column attempts integer not null default 0,
      add column next_attempt_at timestamptz not null default now(),
      add column last_error text,
      add column dead_at timestamptz`.execute(db)
  // messages that have failed come after those that were never sent
  await sql`
    create index workflow_starts_due on workflow_starts ((last_error is not null), next_attempt_at)
    where dead_at is null`.execute(db)
  await sql`create index workflow_starts_dead on workflow_starts (dead_at) where dead_at is not null`.execute(db)
  await sql`create index workflow_starts_workflow on workflow_starts (workflow_id)`.execute(db)
  await sql`drop index workflow_starts_created`.execute(db)
  await sql`
    create table stuck_activities (
      workflow_id text not null,
      activity_id text not null,
      type text not null,
      attempts integer not null,
      error text not null,
      first_failed_at timestamptz not null,
      last_failed_at timestamptz not null,
      primary key (workflow_id, activity_id)
    )`.execute(db)
}
