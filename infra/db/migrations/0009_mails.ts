import { type Kysely, sql } from 'kysely'

/** Mails, each written with its cause. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table mails (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      sender text not null,
      recipient text not null,
      subject text not null,
      text text not null,
      html text not null,
      created_at timestamptz(3) not null,
      -- what has become of it; null while it is on its way
      outcome text,
      sent_at timestamptz(3)
    )`.execute(db)
  await sql`create index mails_recipient on mails (recipient, id)`.execute(db)
  await sql`create index mails_waiting on mails (created_at) where outcome is null`.execute(db)
}
