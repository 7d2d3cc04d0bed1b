import { type Kysely, sql } from 'kysely'

/** The bytes of a project's blobs, which were summed for each deploy and each uploaded blob: 75 ms for a million of them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table projects add column blob_bytes bigint not null default 0`.execute(db)
  await sql`
    update projects set blob_bytes = stored.bytes
    from (select project_id, sum(size) as bytes from blobs group by project_id) as stored
    where stored.project_id = projects.id`.execute(db)
}
