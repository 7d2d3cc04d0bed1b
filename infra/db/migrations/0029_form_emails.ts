import { type Kysely, sql } from 'kysely'

/** Emails to owners about form submissions, which are gathered into digests. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table form_submissions add column email_pending boolean not null default false`.execute(db)
  await sql`create index form_submissions_email on form_submissions (site_id, id) where email_pending`.execute(db)

  await sql`
    alter table site_forms
      -- the number of the next email, and when it is due; no submissions are gathered while that is null
      add column digest_no integer not null default 0,
      add column digest_at timestamptz(3),
      -- the emails since submissions were first gathered
      add column digests integer not null default 0,
      -- the latest notification, when the owner gets no emails
      add column notified_at timestamptz(3)`.execute(db)
  await sql`create index site_forms_digest on site_forms (digest_at) where digest_at is not null`.execute(db)

  await sql`alter table mails add column reply_to text`.execute(db)
}
