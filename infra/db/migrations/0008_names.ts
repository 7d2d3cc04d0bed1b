import { type Kysely, sql } from 'kysely'

/** Who holds which subdomain and until when, and the changes of sites' subdomains. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table subdomains (
      subdomain text primary key,
      -- null when the site was removed for good
      site_id uuid references sites (id),
      project_id uuid not null references projects (id),
      kind text not null,
      -- of former and quarantined names, and of a pending one that still redirects
      held_until timestamptz(3),
      check (held_until is not null or kind in ('current', 'pending')),
      check ((site_id is null) = (kind = 'quarantined'))
    )`.execute(db)
  await sql`create index subdomains_site on subdomains (site_id)`.execute(db)
  await sql`insert into subdomains select subdomain, id, project_id, 'current', null from sites`.execute(db)

  await sql`
    create table subdomain_changes (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      old_subdomain text not null,
      new_subdomain text not null,
      requested_at timestamptz(3) not null,
      switch_at timestamptz(3) not null,
      cancelled_at timestamptz(3),
      switched_at timestamptz(3)
    )`.execute(db)
  await sql`
    create unique index subdomain_changes_pending on subdomain_changes (site_id)
    where cancelled_at is null and switched_at is null`.execute(db)
  await sql`create index subdomain_changes_site on subdomain_changes (site_id, requested_at)`.execute(db)

  await sql`alter table sites add column purging boolean not null default false`.execute(db)
  // deleting many deploys looks each of them up
  await sql`create index sites_active_deploy on sites (active_deploy_id)`.execute(db)
  await sql`create index sites_trashed on sites (deletion_scheduled_at) where deletion_scheduled_at is not null`.execute(db)
}
