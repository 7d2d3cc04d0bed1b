import { type Kysely, sql } from 'kysely'

/** Turns of builds, signals to workflows beside their starts, and totals for metrics. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // when the build was handed to the build queue; until then it waits for its site or its project
  await sql`alter table deploys add column turn_at timestamptz(3)`.execute(db)
  await sql`
    create index deploys_unended on deploys (project_id, site_id, seq) where status in ('queued', 'building')`.execute(db)

  await sql`alter table workflow_starts drop constraint workflow_starts_pkey`.execute(db)
  await sql`alter table workflow_starts rename column start to message`.execute(db)
  // signal: its name; null is a start, of which a workflow has one
  await sql`
    alter table workflow_starts
      add column id uuid primary key default uuidv7(),
      add column signal text`.execute(db)
  await sql`create unique index workflow_starts_start on workflow_starts (workflow_id) where signal is null`.execute(db)

  await sql`
    create table build_totals (
      outcome text primary key,
      builds bigint not null,
      -- from the start of each build to its end
      milliseconds bigint not null
    )`.execute(db)
  await sql`create index build_minutes_month on build_minutes (month) include (minutes)`.execute(db)
}
