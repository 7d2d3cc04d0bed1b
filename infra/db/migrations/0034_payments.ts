import { type Kysely, sql } from 'kysely'

/** The payments that members of closed sites have begun, and those of the provider for trying out. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table checkouts (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null,
      -- null when the member was deleted
      member_id uuid references members (id) on delete set null,
      provider text not null check (provider in ('test', 'yookassa', 'stripe')),
      -- what the provider calls it; null until it answers
      external_id text,
      amount_minor bigint not null check (amount_minor > 0),
      currency text not null,
      -- null for ever
      period_days integer check (period_days > 0),
      -- refused: what was paid is not what was asked for
      status text not null default 'created' check (status in ('created', 'open', 'paid', 'expired', 'refunded', 'refused')),
      -- the provider's page
      checkout_url text,
      -- where the visitor returns to: the origin of the site, and a path
      origin text not null,
      return_path text not null,
      created_at timestamptz(3) not null,
      -- the visitor came back from the provider's page
      returned_at timestamptz(3),
      paid_at timestamptz(3),
      refunded_at timestamptz(3),
      -- the end of the access that this payment gave; null for ever, and without a payment
      paid_until timestamptz(3),
      -- when the provider is asked again at the latest; null when it need not be
      next_look_at timestamptz(3),
      unique (provider, external_id),
      check ((status = 'created') <= (external_id is null)),
      check ((status in ('paid', 'refunded')) <= (paid_at is not null))
    )`.execute(db)
  await sql`create index checkouts_site on checkouts (site_id, status)`.execute(db)
  await sql`create index checkouts_member on checkouts (member_id, created_at)`.execute(db)
  await sql`create index checkouts_look on checkouts (next_look_at) where next_look_at is not null`.execute(db)

  await sql`
    create table test_payments (
      id uuid primary key,
      status text not null check (status in ('open', 'paid', 'expired', 'refunded')),
      amount_minor bigint not null,
      currency text not null,
      description text not null,
      return_url text not null,
      metadata jsonb not null,
      created_at timestamptz(3) not null
    )`.execute(db)
}
