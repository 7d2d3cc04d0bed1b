import { type Kysely, sql } from 'kysely'

/** What projects claim of the names that all of them share, and what counts as too often. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // the names that a project holds are counted whenever it takes one more
  await sql`create index subdomains_project on subdomains (project_id)`.execute(db)
  await sql`create index subdomains_held_until on subdomains (held_until) where held_until is not null`.execute(db)

  // since when the project claims the domain without having proved it: older than the row when it was deleted and added again
  await sql`alter table domains add column claimed_at timestamptz(3) not null default now()`.execute(db)
  await sql`update domains set claimed_at = created_at`.execute(db)
  await sql`
    create table released_domains (
      project_id uuid not null references projects (id),
      domain text not null,
      -- null when it was proved
      claimed_at timestamptz(3),
      looked_up_at timestamptz(3),
      released_at timestamptz(3) not null,
      primary key (project_id, domain)
    )`.execute(db)
  await sql`create index released_domains_released_at on released_domains (released_at)`.execute(db)

  await sql`
    create table allowances (
      project_id uuid not null references projects (id),
      kind text not null,
      -- in order; as many as the limit of the kind at most
      taken_at timestamptz[] not null,
      primary key (project_id, kind)
    )`.execute(db)

  await sql`
    alter table mails
      -- what it tells, and of which site or domain
      add column kind text not null default 'unknown',
      add column about text not null default '',
      -- later mails of the kind about the same thing that were not sent, because there were too many
      add column suppressed integer not null default 0`.execute(db)
  await sql`alter table mails alter column kind drop default, alter column about drop default`.execute(db)
  await sql`create index mails_about on mails (project_id, kind, about, id)`.execute(db)
  await sql`create index mails_created_at on mails (created_at)`.execute(db)
}
