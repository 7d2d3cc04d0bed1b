import { type Kysely, sql } from 'kysely'

/** Objects that are being removed from the storage, or were removed lately: what stores them again has to know, without asking the storage. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table swept_objects (
      sha256 text primary key,
      -- null while the object is being removed
      removed_at timestamptz
    )`.execute(db)
  await sql`create index swept_objects_removed on swept_objects (removed_at)`.execute(db)
}
