import { setTimeout } from 'node:timers/promises'
import {
  type Expression,
  type ExpressionBuilder,
  Kysely,
  PostgresDialect,
  type PostgresPoolClient,
  type SqlBool,
  sql,
} from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import pg from 'pg'
// decides how the values of a row are read: without it a version would be text
import './database.ts'
import { withPrimaries } from '../../core/domains.ts'
import type { Db } from './database.ts'
import type { DB } from './schema.ts'

/** What the edge has to know of one site. */
export interface Route {
  readonly site_id: string
  readonly subdomain: string
  readonly enabled: boolean
  /** The project is suspended for non-payment. */
  readonly suspended: boolean
  readonly trashed: boolean
  /** Grows with every change of the route. */
  readonly version: number
  /** The live deploy and its manifest in the CAS; null when nothing is live. */
  readonly deploy_id: string | null
  readonly manifest_sha256: string | null
  /** Deploys that are shown to whoever has the link. */
  readonly previews: readonly RoutePreview[]
  /** Subdomains that the site had before, which lead to the present one for a while. */
  readonly former: readonly FormerSubdomain[]
  /** Custom domains whose owner has proved it; `*.` stands for one label. */
  readonly domains: readonly RouteDomain[]
}

export interface FormerSubdomain {
  readonly subdomain: string
  /** RFC 3339 */
  readonly until: string
}

export interface RouteDomain {
  readonly domain: string
  /** The domain of the same site that answers in its place; null when it answers itself. */
  readonly primary: string | null
}

export interface RoutePreview {
  readonly token_sha256: string
  readonly deploy_id: string
  readonly manifest_sha256: string
}

const channel = 'routes'

/**
 * Gives the sites their next route version and tells every edge at the commit. To be called last in the transaction
 * that changed what a {@link Route} shows. NOTIFY takes a global lock at commit, so only route changes may use it.
 */
export async function bumpRoutes(db: Db, where: { readonly site_id: string } | { readonly project_id: string }): Promise<void> {
  const chosen = 'site_id' in where ? sql`id = ${where.site_id}` : sql`project_id = ${where.project_id}`
  await sql`
    with changed as (
      update sites set version = version + 1, route_changed_at = clock_timestamp() where ${chosen} returning id, version
    )
    select pg_notify(${channel}, id || ':' || version) from changed`.execute(db)
}

/** Where a feed puts what it reads. Calls come one at a time; a later call never carries an older state of the database. */
export interface RouteSink {
  /** Every route there is: what is absent has been deleted. */
  replaceAll(routes: readonly Route[]): void
  /** Routes that may have changed, and ids of sites that are gone. */
  apply(routes: readonly Route[], goneSiteIds: readonly string[]): void
  /** False, with the reason, from the moment when changes may be missed; true after everything has been read. */
  setConnected(connected: boolean, reason?: string): void
}

export interface FollowOptions {
  /** How often changes are looked for that no notification told of. */
  readonly pollMs?: number
  /** How often everything is read again, because a deleted row leaves no trace. */
  readonly reloadMs?: number
}

/** Changes are stamped before their commit; a transaction may be this much older than the newest stamp that was read. */
const overlapMs = 60_000
/** More notifications at once than this are answered by reading everything. */
const maxNamedSites = 1000
const firstPauseMs = 100
const longestPauseMs = 5000

/**
 * Follows every route until disposed. While PostgreSQL is away it tries again with growing pauses, and the sink keeps what it has.
 */
export function followRoutes(url: string, sink: RouteSink, options: FollowOptions = {}): AsyncDisposable {
  const stop = new AbortController()
  let pauseMs = firstPauseMs

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        await followOnce(url, stop.signal, options, {
          ...sink,
          setConnected(connected) {
            pauseMs = firstPauseMs
            sink.setConnected(connected)
          },
        })
      } catch (error) {
        sink.setConnected(false, reasonOf(error as Error))
        await setTimeout(pauseMs * (0.5 + Math.random() / 2), undefined, { signal: stop.signal }).catch(() => undefined)
        pauseMs = Math.min(pauseMs * 2, longestPauseMs)
      }
    }
  }

  const running = run()
  return {
    async [Symbol.asyncDispose]() {
      stop.abort()
      await running
    },
  }
}

/** The error of a host with several addresses has no message. */
const reasonOf = (error: NodeJS.ErrnoException) => error.message || (error.code ?? error.name)

/** The life of one connection. Returns when told to stop, throws when the connection is lost or of no use any more. */
async function followOnce(url: string, stop: AbortSignal, options: FollowOptions, sink: RouteSink): Promise<void> {
  await using listener = await listen(url, stop, options)
  const { db } = listener
  let newest = 0
  let complete = false
  for (;;) {
    const due = await listener.next()
    if (!due) return
    if (due.reload) {
      const all = await readRoutes(db)
      newest = all.newest
      sink.replaceAll(all.routes)
      if (!complete) sink.setConnected(true)
      complete = true
      continue
    }
    if (due.siteIds.length > 0) {
      const { routes } = await readRoutes(db, (eb) => eb('sites.id', 'in', due.siteIds))
      const found = new Set(routes.map((route) => route.site_id))
      const gone = due.siteIds.filter((id) => !found.has(id))
      sink.apply(routes, gone)
    }
    if (due.poll) {
      const since = new Date(newest - overlapMs)
      const recent = await readRoutes(db, (eb) => eb('sites.route_changed_at', '>', since))
      newest = Math.max(newest, recent.newest)
      sink.apply(recent.routes, [])
    }
  }
}

/** What is to be read next. */
interface Due {
  readonly reload: boolean
  readonly poll: boolean
  /** Sites that notifications named; a burst of them is one read. */
  readonly siteIds: readonly string[]
}

interface Listener extends AsyncDisposable {
  /** The connection that listens. A read that fails or takes too long shows that it is lost. */
  readonly db: Db
  /** Waits until something is due: first of all a reload. Undefined when told to stop. @throws when the connection is lost */
  next(): Promise<Due | undefined>
}

/** Listens before anything is read, so that no change falls between. */
async function listen(url: string, stop: AbortSignal, options: FollowOptions): Promise<Listener> {
  const { pollMs = 5000, reloadMs = 300_000 } = options
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 2000,
    query_timeout: 10_000,
    keepAlive: true,
    application_name: 'plinth edge routes',
  })
  const named = new Set<string>()
  let reload = true
  let poll = false
  let lost: Error | undefined
  let wake = Promise.withResolvers<void>()
  const waking = (change: () => void) => () => {
    change()
    wake.resolve()
  }
  const isDue = () => stop.aborted || lost !== undefined || reload || poll || named.size > 0
  const onStop = waking(() => undefined)

  client.on('error', (error) => waking(() => (lost ??= error))())
  client.on('notification', ({ payload = '' }) => waking(() => named.add(payload.split(':', 1)[0] ?? ''))())
  await using opened = new AsyncDisposableStack()
  // the farewell to a server that does not answer would take for ever
  opened.defer(() => Promise.race([client.end().catch(() => undefined), setTimeout(1000, undefined, { ref: false })]))
  await client.connect()
  await client.query(`listen ${channel}`)
  opened.adopt(
    setInterval(
      waking(() => (poll = true)),
      pollMs,
    ),
    clearInterval,
  )
  opened.adopt(
    setInterval(
      waking(() => (reload = true)),
      reloadMs,
    ),
    clearInterval,
  )
  stop.addEventListener('abort', onStop)
  opened.defer(() => stop.removeEventListener('abort', onStop))
  const stack = opened.move()

  return {
    db: overOneClient(client),
    async next() {
      while (!isDue()) {
        wake = Promise.withResolvers()
        await wake.promise
      }
      if (stop.aborted) return undefined
      if (lost) throw lost
      const due = { reload: reload || named.size > maxNamedSites, poll, siteIds: [...named] }
      reload = poll = false
      named.clear()
      return due
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** The routes of all sites or of some, and when the last of them changed (0 for none). */
async function readRoutes(
  db: Db,
  which?: (eb: ExpressionBuilder<Pick<DB, 'sites'>, 'sites'>) => Expression<SqlBool>,
): Promise<{ routes: Route[]; newest: number }> {
  const rows = await db
    .selectFrom('sites')
    .$if(which !== undefined, (query) => (which ? query.where(which) : query))
    .innerJoin('projects', 'projects.id', 'sites.project_id')
    .leftJoin('deploys', 'deploys.id', 'sites.active_deploy_id')
    .select(['sites.id as site_id', 'sites.subdomain', 'sites.enabled', 'sites.version', 'sites.route_changed_at'])
    .select((eb) => eb('sites.deletion_scheduled_at', 'is not', null).$castTo<boolean>().as('trashed'))
    .select(['projects.suspended', 'deploys.id as deploy_id', 'deploys.manifest_sha256'])
    .select((eb) => jsonArrayFrom(livePreviews(eb)).as('previews'))
    .select((eb) => jsonArrayFrom(formerSubdomains(eb)).as('former'))
    .select((eb) => jsonArrayFrom(verifiedDomains(eb)).as('domains'))
    .execute()
  let newest = 0
  const routes = rows.map(({ route_changed_at, ...route }) => {
    newest = Math.max(newest, route_changed_at.getTime())
    return { ...route, domains: withPrimaries(route.domains) }
  })
  return { routes, newest }
}

const livePreviews = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'previews' | 'deploys'>, 'sites'>) =>
  eb
    .selectFrom('previews')
    .innerJoin('deploys as shown', 'shown.id', 'previews.deploy_id')
    .select('previews.deploy_id')
    .select((eb) => eb.ref('previews.token_sha256').$notNull().as('token_sha256'))
    .select((eb) => eb.ref('shown.manifest_sha256').$notNull().as('manifest_sha256'))
    .whereRef('previews.site_id', '=', 'sites.id')
    .where('previews.token_sha256', 'is not', null)
    .where('shown.manifest_sha256', 'is not', null)
    .where('shown.artifacts_purged', '=', false)

const formerSubdomains = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'subdomains'>, 'sites'>) =>
  eb
    .selectFrom('subdomains')
    .select('subdomains.subdomain')
    .select(sql<string>`to_char(subdomains.held_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`.as('until'))
    .whereRef('subdomains.site_id', '=', 'sites.id')
    .where('subdomains.kind', '=', 'former')

/** In the order in which they were added. */
const verifiedDomains = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'domains' | 'certificates'>, 'sites'>) =>
  eb
    .selectFrom('domains')
    .leftJoin('certificates', 'certificates.domain_id', 'domains.id')
    .select('domains.domain')
    .select((eb) => eb('certificates.certificate', 'is not', null).$castTo<boolean>().as('secured'))
    .whereRef('domains.site_id', '=', 'sites.id')
    .where('domains.verified_at', 'is not', null)
    .orderBy('domains.id')

/** Kysely over a connection that is opened and closed elsewhere. */
function overOneClient(client: pg.Client): Db {
  const connection = { query: client.query.bind(client), release: () => undefined } as unknown as PostgresPoolClient
  const pool = { connect: () => Promise.resolve(connection), end: () => Promise.resolve(), options: {} }
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) })
}
