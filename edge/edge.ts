import type { Cas } from '../infra/cas/cas.ts'
import { followRoutes } from '../infra/db/routes.ts'
import { type Listen, openServer, type ServerLimits } from '../infra/listen.ts'
import type { Logger } from '../infra/log.ts'
import { openContent } from './content.ts'
import { createHandler } from './handler.ts'
import { openRouteTable } from './routes.ts'

/** Visitors send no bodies, and one who reads nothing for a minute holds an open file. */
export const edgeLimits: ServerLimits = { requestTimeoutMs: 60_000, stalledMs: 60_000 }

export interface EdgeOptions {
  /** Sites are `<subdomain>.<platformDomain>`. */
  readonly platformDomain: string
  /** The address of the platform: links have its scheme and port. */
  readonly baseUrl: string
  /** Preview links are `<previewUrl>/<token>/`. */
  readonly previewUrl: string
  readonly databaseUrl: string
  readonly cas: Cas
  /** Keeps the routes for a start without PostgreSQL. */
  readonly snapshotDir: string
  readonly listen: Listen
  readonly log: Logger
}

export interface Edge extends AsyncDisposable {
  /** Undefined when it listens on a unix socket. */
  readonly port: number | undefined
}

/** Serves the routes of the snapshot at once, then follows the database. Ready when this returns; disposing drains. */
export async function openEdge(options: EdgeOptions): Promise<Edge> {
  const { platformDomain, baseUrl, previewUrl, log } = options
  await using opened = new AsyncDisposableStack()
  const routes = opened.use(await openRouteTable(options))
  const content = openContent(options.cas)
  const server = opened.use(
    await openServer(createHandler({ platformDomain, baseUrl, previewUrl, routes, content, log }), options.listen, edgeLimits),
  )
  opened.use(followRoutes(options.databaseUrl, routes))
  const stack = opened.move()
  return { port: server.port, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}
