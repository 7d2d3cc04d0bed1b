import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'

/** Enough of a route to say which version of it an edge serves. */
export interface AppliedRoute {
  readonly site_id: string
  readonly version: number
}

/** What an edge says about itself over the connection on which it follows the routes. A refusal of PostgreSQL is logged and does not matter to the edge. */
export interface EdgeRegistration {
  /** Says that the edge runs, and deletes what nobody needs any more. At least every five seconds. */
  heartbeat(db: Db): Promise<void>
  /** Says that the edge serves these versions, or later ones. */
  acknowledge(db: Db, routes: readonly AppliedRoute[]): Promise<void>
  /** Says that nobody should wait for the edge any more. */
  leave(db: Db): Promise<void>
}

/** After a complete read, routes are acknowledged that changed this much before the newest one. Nobody waits for older changes. */
export const ackedStampMs = 10_000
/** The most acknowledgements of one statement. Who waits for a route beyond them waits a second in vain. */
const maxAcks = 5000

/** An edge counts as live this long after its last heartbeat: two heartbeats. */
const isLive = sql<boolean>`seen_at > clock_timestamp() - interval '10 seconds'`

/** An edge of its own for each call: one for each process. */
export function createEdgeRegistration(log: Logger): EdgeRegistration {
  const id = randomUUID()
  let isRefused = false

  /** @throws when the connection is lost, as the next read would */
  async function attempt(write: () => Promise<unknown>): Promise<void> {
    try {
      await write()
      isRefused = false
    } catch (error) {
      // only errors that the server sends have a severity
      if (!(error instanceof Error && 'severity' in error)) throw error
      if (!isRefused) log.warn({ err: error }, 'edge not registered; nobody waits until it serves a new deploy')
      isRefused = true
    }
  }

  return {
    heartbeat: (db) =>
      attempt(() =>
        sql`
          with alive as (
            insert into edges (id, seen_at) values (${id}, clock_timestamp())
            on conflict (id) do update set seen_at = excluded.seen_at
          ), gone as (
            delete from edges where id <> ${id} and seen_at < clock_timestamp() - interval '1 minute' returning id
          )
          delete from edge_acks
          where edge_id in (select id from gone) or edge_id = ${id} and at < clock_timestamp() - interval '10 seconds'`.execute(
          db,
        ),
      ),
    acknowledge: (db, routes) => {
      if (routes.length === 0) return Promise.resolve()
      const acked = routes.slice(0, maxAcks)
      const ids = acked.map((route) => route.site_id)
      const versions = acked.map((route) => route.version)
      return attempt(() =>
        sql`
          insert into edge_acks (edge_id, site_id, version, at)
          select ${id}, site_id, version, clock_timestamp()
          from unnest(${ids}::uuid[], ${versions}::bigint[]) as applied (site_id, version)
          on conflict (edge_id, site_id) do update set version = excluded.version, at = excluded.at`.execute(db),
      )
    },
    leave: async (db) => {
      const delete_ = sql`
        with gone as (delete from edges where id = ${id}) delete from edge_acks where edge_id = ${id}`
      await attempt(() => delete_.execute(db)).catch(() => undefined)
    },
  }
}

/** A site whose visitors should get a version of its route, or a later one; null for the version that it has now. */
export interface WantedRoute {
  readonly site_id: string
  readonly version: number | null
}

export interface ServedRoute {
  readonly version: number
  /** How long ago the route changed, by PostgreSQL's clock. */
  readonly age_ms: number
  /** Whether every live edge serves the version. */
  readonly is_served: boolean
}

/** What is served of each wanted route, in the same order; undefined for a site that is gone. One statement for all of them. */
export async function findServedRoutes(db: Db, wanted: readonly WantedRoute[]): Promise<(ServedRoute | undefined)[]> {
  const ids = wanted.map((route) => route.site_id)
  const versions = wanted.map((route) => route.version)
  const { rows } = await sql<ServedRoute & { position: number }>`
    with wanted as (
      select position, sites.id as site_id, coalesce(named.version, sites.version) as version, sites.route_changed_at
      from unnest(${ids}::uuid[], ${versions}::bigint[]) with ordinality as named (site_id, version, position)
      join sites on sites.id = named.site_id
    )
    select position, version, (extract(epoch from clock_timestamp() - route_changed_at) * 1000)::float8 as age_ms,
      not exists (
        select from edges where ${isLive} and not exists (
          select from edge_acks
          where edge_id = edges.id and edge_acks.site_id = wanted.site_id and edge_acks.version >= wanted.version
        )
      ) as is_served
    from wanted`.execute(db)
  const byPosition = new Map(rows.map(({ position, ...row }) => [position, row]))
  return wanted.map((_, i) => byPosition.get(i + 1))
}
