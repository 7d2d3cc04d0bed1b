import { type ExpressionBuilder, type RawBuilder, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import { withPrimaries } from '../../core/domains.ts'
import type { Db } from '../../infra/db/database.ts'
import { type Feed, type FollowOptions, follow, type SetConnected } from '../../infra/db/feed.ts'
import type { DB } from '../../infra/db/schema.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'
import { deliveryFiles, deliveryPage, type RouteFile, type RoutePage } from './delivery.ts'
import { type AppliedRoute, ackedStampMs, type EdgeRegistration } from './edges.ts'
import { type RouteLock, routeLock } from './locks.ts'
import { permanentLinks } from './permanent-links.ts'
import { newestOf, type RowVersion, readAll, readHigher, type Table } from './versions.ts'

/** The facts of one site that the edge needs. */
export interface Route {
  readonly site_id: string
  readonly subdomain: string
  readonly enabled: boolean
  /** Whether the operator has suspended the project. */
  readonly suspended: boolean
  readonly trashed: boolean
  /** Whether each page has one address, to which its others redirect. */
  readonly canonical_urls: boolean
  /** Grows with every change of the route. */
  readonly version: number
  /** The live deploy and its manifest in the CAS; null when nothing is live. */
  readonly deploy_id: string | null
  readonly manifest_sha256: string | null
  /** Whether its brotli and zstd variants are made, as far as they are worth keeping. */
  readonly compressed: boolean
  /** The manifest of the assets of superseded deploys that the site retains; null when there are none. */
  readonly retained_sha256: string | null
  /** The preview links. */
  readonly previews: readonly RoutePreview[]
  /** The deploys with a permanent link; empty while the site has none. */
  readonly permanent: readonly PermanentLink[]
  /** Former subdomains, which redirect to the current one for a while. */
  readonly former: readonly FormerSubdomain[]
  /** Verified custom domains; `*.` stands for one label. */
  readonly domains: readonly RouteDomain[]
  /** The files that visitors with a link may download. */
  readonly delivery_files: readonly RouteFile[]
  /** How the page of these files looks; null when its owner has set nothing. */
  readonly delivery_page: RoutePage | null
  /** What closes the site; null while it is open to everybody. */
  readonly lock: RouteLock | null
}

export interface FormerSubdomain {
  readonly subdomain: string
  /** RFC 3339 */
  readonly until: string
}

export interface RouteDomain {
  readonly domain: string
  /** The domain of the same site to which it redirects; null when it serves the site itself. */
  readonly primary: string | null
}

export interface RoutePreview {
  readonly token_sha256: string
  readonly deploy_id: string
  readonly manifest_sha256: string
}

/** The token of the link is derived from the id and the generation. */
export interface PermanentLink {
  readonly deploy_id: string
  readonly manifest_sha256: string
  readonly generation: number
}

const channel = 'routes'

/**
 * Gives the sites their next route version and notifies every edge at the commit. To be called last in the transaction
 * that changed what a {@link Route} shows. NOTIFY takes a global lock at commit, so only route changes may use it.
 */
export async function bumpRoutes(db: Db, where: { readonly site_id: string } | { readonly project_id: string }): Promise<void> {
  await bump(db, 'site_id' in where ? sql`id = ${where.site_id}` : sql`project_id = ${where.project_id}`)
}

/** As {@link bumpRoutes}, when a deploy of the site has got its files or lost them, which only permanent links show. */
export async function bumpPermanentLinks(db: Db, siteId: string): Promise<void> {
  await bump(db, sql`id = ${siteId} and permanent_links`)
}

async function bump(db: Db, chosen: RawBuilder<unknown>): Promise<void> {
  await sql`
    with changed as (
      update sites set version = version + 1, route_changed_at = clock_timestamp() where ${chosen} returning id, version
    )
    select pg_notify(${channel}, id || ':' || version) from changed`.execute(db)
}

/** Notifies every edge at the commit that a site was removed. To be called last in the transaction that deletes its row. */
export async function notifyRemoved(tx: Db, siteId: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${siteId}::text || ':')`.execute(tx)
}

/** Receives the routes of a feed. Calls come one at a time, and a later call never has an older state of the database. */
export interface RouteSink extends Table {
  /** Takes routes that may have changed, and ids of removed sites. */
  apply(routes: readonly Route[], goneSiteIds: readonly string[]): void
  readonly setConnected: SetConnected
}

/** @param edge acknowledges the routes once the sink has them */
export function routeFeed(sink: Omit<RouteSink, 'setConnected'>, edge?: EdgeRegistration): Feed {
  async function readNamed(db: Db, ids: readonly string[]): Promise<Route[]> {
    const routes = await readRoutes(db, ids)
    const found = new Set(routes.map((route) => route.site_id))
    sink.apply(
      routes,
      ids.filter((id) => !found.has(id)),
    )
    return routes
  }
  return {
    channel,
    useIncarnation: (incarnation) => sink.useIncarnation(incarnation),
    // before the first read, so that an activation after it waits for this edge
    begin: async (db) => await edge?.heartbeat(db),
    end: async (db) => await edge?.leave(db),
    async readAll(db) {
      const rows = await listVersions(db)
      await readAll(sink, rows, batchSize, (ids) => readNamed(db, ids))
      const newest = newestOf(rows)
      await edge?.acknowledge(db, rows.filter((row) => row.changed_at.getTime() > newest - ackedStampMs).map(appliedRoute))
      await edge?.heartbeat(db)
      return newest
    },
    async readSince(db, since) {
      const rows = await listVersions(db, since)
      // not acknowledged: each of these changes has a notification, which is read before or after this
      await readHigher(sink, rows, batchSize, (ids) => readNamed(db, ids))
      await edge?.heartbeat(db)
      return newestOf(rows)
    },
    async readNamed(db, ids) {
      const routes = await readNamed(db, ids)
      await edge?.acknowledge(db, routes)
    },
  }
}

/** Routes of one read. */
const batchSize = 1000

const appliedRoute = ({ id, version }: RowVersion): AppliedRoute => ({ site_id: id, version })

const listVersions = (db: Db, since?: Date): Promise<RowVersion[]> =>
  db
    .selectFrom('sites')
    .select(['id', 'version', 'route_changed_at as changed_at'])
    .$if(since !== undefined, (query) => (since ? query.where('route_changed_at', '>', since) : query))
    .execute()

/** Follows every route until disposed. While PostgreSQL is away it retries, and the sink keeps its routes. */
export const followRoutes = (url: string, sink: RouteSink, options?: FollowOptions): AsyncDisposable =>
  follow(url, [routeFeed(sink)], sink.setConnected, options)

async function readRoutes(db: Db, ids: readonly string[]): Promise<Route[]> {
  const routes = await db
    .selectFrom('sites')
    // one text for any number of sites: planning it takes PostgreSQL ten times as long as running it
    .where('sites.id', '=', sql<string>`any(${ids}::uuid[])`)
    .innerJoin('projects', 'projects.id', 'sites.project_id')
    .leftJoin('deploys', 'deploys.id', 'sites.active_deploy_id')
    .select(['sites.id as site_id', 'sites.subdomain', 'sites.enabled', 'sites.canonical_urls'])
    .select(['sites.version', 'sites.retained_sha256'])
    .select((eb) => eb('sites.deletion_scheduled_at', 'is not', null).$castTo<boolean>().as('trashed'))
    .select(['projects.suspended', 'deploys.id as deploy_id', 'deploys.manifest_sha256'])
    .select(sql<boolean>`deploys.id is not null and deploys.compression_due_at is null`.as('compressed'))
    .select((eb) => jsonArrayFrom(livePreviews(eb)).as('previews'))
    .select((eb) => jsonArrayFrom(permanentLinks(eb)).as('permanent'))
    .select((eb) => jsonArrayFrom(formerSubdomains(eb)).as('former'))
    .select((eb) => jsonArrayFrom(verifiedDomains(eb)).as('domains'))
    .select((eb) => jsonArrayFrom(deliveryFiles(eb)).as('delivery_files'))
    .select((eb) => jsonObjectFrom(deliveryPage(eb)).as('delivery_page'))
    .select((eb) => jsonObjectFrom(routeLock(eb)).as('lock'))
    .execute()
  return routes.map((route) => ({ ...route, domains: withPrimaries(route.domains) }))
}

const livePreviews = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'preview_links' | 'deploys'>, 'sites'>) =>
  eb
    .selectFrom('preview_links')
    .innerJoin('deploys as shown', 'shown.id', 'preview_links.deploy_id')
    .select('shown.id as deploy_id')
    .select((eb) => eb.ref('preview_links.token_sha256').$notNull().as('token_sha256'))
    .select((eb) => eb.ref('shown.manifest_sha256').$notNull().as('manifest_sha256'))
    .whereRef('preview_links.site_id', '=', 'sites.id')
    .where('preview_links.token_sha256', 'is not', null)
    .where('shown.manifest_sha256', 'is not', null)
    .where('shown.artifacts_purged', '=', false)

const formerSubdomains = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'subdomains'>, 'sites'>) =>
  eb
    .selectFrom('subdomains')
    .select('subdomains.subdomain')
    .select(sql<string>`to_char(subdomains.held_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`.as('until'))
    .whereRef('subdomains.site_id', '=', 'sites.id')
    // a name that the site is about to take back redirects until then
    .where('subdomains.kind', 'in', ['former', 'pending'])
    .where('subdomains.held_until', 'is not', null)

/** In the order in which they were added. */
const verifiedDomains = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'domains' | 'certificates'>, 'sites'>) =>
  eb
    .selectFrom('domains')
    .leftJoin('certificates', 'certificates.domain_id', 'domains.id')
    .select('domains.domain')
    .select((eb) => eb('certificates.certificate', 'is not', null).$castTo<boolean>().as('secured'))
    .whereRef('domains.site_id', '=', 'sites.id')
    .where(isVerifiedDomain)
    .orderBy('domains.id')
