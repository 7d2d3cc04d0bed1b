import { type Kysely, sql } from 'kysely'

/** Requests whose bytes are on their way into the storage: they count for their project until they are accepted or refused. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table uploads (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      -- at most so many
      bytes bigint not null,
      started_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index uploads_project on uploads (project_id)`.execute(db)
  // thousands of rows come and go: the table stays a few pages only when they are cleaned early
  await sql`alter table uploads set (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0)`.execute(db)
}
