import { type Kysely, sql } from 'kysely'

/** Codes are emailed by a workflow that decides for each; known visitors and payers have budgets that strangers cannot use up. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table access_codes
      -- the code until it is emailed or not; null in rows from before
      add column sealed_code text,
      -- what its email and the login log say; null in rows from before
      add column host text,
      add column lang text,
      add column device text,
      add column network text,
      -- from when the code is accepted: now for the codes of processes that have not been upgraded yet, which email them at once
      add column sent_at timestamptz(3) default now(),
      -- wrong tries on pages that asked for another code
      add column other_tries integer not null default 0`.execute(db)
  await sql`create index access_codes_unsent on access_codes (id) where sealed_code is not null`.execute(db)

  await sql`
    create table access_networks (
      site_id uuid not null references sites (id),
      -- who has logged in, as in visits
      subject uuid not null,
      -- masked as in the login log
      network text not null,
      entered_at timestamptz(3) not null,
      primary key (site_id, subject, network)
    )`.execute(db)
  await sql`create index access_networks_entered on access_networks (entered_at)`.execute(db)

  // until when an unpaid payment holds a seat; null when it holds none
  await sql`alter table checkouts add column seat_held_until timestamptz(3)`.execute(db)
  await sql`
    update checkouts set seat_held_until = created_at + interval '15 minutes'
    where status in ('created', 'open')`.execute(db)
}
