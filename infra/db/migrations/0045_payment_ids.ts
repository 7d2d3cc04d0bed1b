import { type Kysely, sql } from 'kysely'

/** The names of payments by which their disputes are called back. Those of earlier payments are noted when their provider is asked next. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // what the provider calls the payment itself, where that is not external_id
  await sql`alter table checkouts add column payment_id text`.execute(db)
  await sql`create index checkouts_payment on checkouts (provider, payment_id) where payment_id is not null`.execute(db)
}
