import { type Kysely, sql } from 'kysely'

/**
 * The edges that run and the routes that they have applied lately. Unlogged: after a crash of PostgreSQL both tables are empty, and every edge
 * registers again when it reconnects.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create unlogged table edges (
      -- a new one with each start of the process
      id uuid primary key,
      seen_at timestamptz(3) not null
    )`.execute(db)

  await sql`
    create unlogged table edge_acks (
      -- without foreign keys: a late row does no harm, and rows are deleted within seconds
      edge_id uuid not null,
      site_id uuid not null,
      -- the edge serves this version of the route, or a later one
      version bigint not null,
      at timestamptz(3) not null,
      primary key (edge_id, site_id)
    )`.execute(db)
}
