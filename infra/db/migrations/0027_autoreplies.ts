import { type Kysely, sql } from 'kysely'

/** Replies to the visitors who post a form. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table autoreplies (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      enabled boolean not null,
      subject text not null,
      body text not null,
      -- the field of the form that holds the address
      email_field text not null,
      updated_at timestamptz(3) not null
    )`.execute(db)

  await sql`
    create table autoreply_usage (
      project_id uuid not null,
      month date not null,
      emails integer not null,
      primary key (project_id, month)
    )`.execute(db)

  await sql`
    -- submissions for which nothing has decided yet whether they get a reply
    create table due_autoreplies (
      submission_id uuid primary key references form_submissions (id) on delete cascade,
      site_id uuid not null,
      project_id uuid not null,
      created_at timestamptz(3) not null
    )`.execute(db)

  // of a reply, the submission that it answers
  await sql`alter table mails add column submission_id uuid`.execute(db)
  await sql`create unique index mails_submission on mails (submission_id) where submission_id is not null`.execute(db)
  await sql`create index mails_autoreply on mails (about, recipient, created_at) where kind = 'autoreply'`.execute(db)
}
