import { type Kysely, sql } from 'kysely'

/** Objects that the platform has given up: until now they were rows of `blobs` that belonged to nobody, manifests with a size of 0. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table released_objects (
      sha256 text primary key,
      -- by the last row that needed it
      released_at timestamptz(3) not null,
      -- an edge that is behind may still read it
      published boolean not null
    )`.execute(db)
  await sql`create index released_objects_released on released_objects (released_at)`.execute(db)
  await sql`
    insert into released_objects (sha256, released_at, published)
    select sha256, max(touched_at), true from blobs where deploys = 0 and not staged group by sha256`.execute(db)
  await sql`delete from blobs where deploys = 0 and not staged`.execute(db)
  await sql`alter table blobs add check (deploys > 0 or staged)`.execute(db)
}
