import { type Kysely, sql } from 'kysely'

/** Tickets with which visitors of closed sites get to permanent links, for a minute. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table access_tickets (
      ticket_sha256 text primary key,
      site_id uuid not null references sites (id),
      deploy_id uuid not null,
      -- of the visit that the ticket was issued for, which the new visit does not outlive
      epoch uuid not null,
      subject uuid not null,
      generation integer not null,
      consent integer not null,
      until timestamptz(3) not null,
      network text not null,
      created_at timestamptz(3) not null default now()
    )`.execute(db)
  await sql`create index access_tickets_subject on access_tickets (site_id, subject, network, created_at)`.execute(db)
  await sql`create index access_tickets_created on access_tickets (created_at)`.execute(db)
}
