import { type Kysely, sql } from 'kysely'

/** When which part of the storage was read and compared with its hashes, and what was found damaged. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table verified_prefixes (
      -- the first two characters of the hashes of the objects
      prefix text primary key,
      verified_at timestamptz(3) not null,
      objects integer not null,
      bytes bigint not null
    )`.execute(db)
  await sql`
    create table damaged_objects (
      sha256 text primary key,
      found_at timestamptz(3) not null,
      -- null: nobody can read it
      repaired_at timestamptz(3)
    )`.execute(db)
}
