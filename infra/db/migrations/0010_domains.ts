import { type Kysely, sql } from 'kysely'

/** Custom domains, certificates, and what the authority of DNS-01 answers. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table domains (
      id uuid primary key default uuidv7(),
      project_id uuid not null references projects (id),
      site_id uuid not null references sites (id),
      domain text not null unique,
      verification_token text not null,
      -- which workflow connects it
      attempt integer not null default 1,
      verified_at timestamptz(3),
      -- when the TXT record was last seen
      proven_at timestamptz(3),
      -- when a verified domain was first found without it
      missing_since timestamptz(3),
      -- since when its workflow tries, and when that was done; null again when the ownership was lost
      connecting_since timestamptz(3) not null default now(),
      connected_at timestamptz(3),
      -- when somebody last asked for a look-up: the throttle
      looked_up_at timestamptz(3),
      -- when the platform looks by itself; null when it has given up
      next_check_at timestamptz(3),
      -- what the latest look-up found
      a_record jsonb,
      diagnostics jsonb,
      created_at timestamptz(3) not null
    )`.execute(db)
  await sql`create index domains_site on domains (site_id)`.execute(db)
  await sql`create index domains_project on domains (project_id)`.execute(db)
  await sql`create index domains_next_check on domains (next_check_at) where next_check_at is not null`.execute(db)
  await sql`create index domains_connecting on domains (id) where connected_at is null and next_check_at is not null`.execute(db)

  await sql`
    create table certificates (
      id uuid primary key default uuidv7(),
      -- null: a name of the platform itself
      domain_id uuid unique references domains (id) on delete cascade,
      name text not null unique,
      certificate text,
      key_sealed text,
      not_before timestamptz(3),
      not_after timestamptz(3),
      -- when the next order begins by itself
      renew_at timestamptz(3),
      -- the order that brought the certificate
      issued_by uuid,
      -- when the latest order began
      ordered_at timestamptz(3),
      -- the order under way: which one, how often it was tried, when it is tried next and why not before
      order_id uuid,
      tries integer not null default 0,
      next_try_at timestamptz(3),
      error text,
      -- the edge applies a certificate only when its version is higher than the one it knows
      version bigint not null default 1,
      changed_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index certificates_changed on certificates (changed_at)`.execute(db)
  await sql`create index certificates_renew on certificates (renew_at) where order_id is null`.execute(db)
  await sql`create index certificates_ordered_at on certificates (ordered_at)`.execute(db)
  await sql`create index certificates_ordered on certificates (next_try_at) where order_id is not null`.execute(db)

  await sql`
    create table dns_challenges (
      name text not null,
      value text not null,
      created_at timestamptz(3) not null,
      primary key (name, value)
    )`.execute(db)
}
