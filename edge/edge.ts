import { stalledVisitMs } from '../core/limits.ts'
import { acmeAccount } from '../infra/acme/account.ts'
import type { Cas } from '../infra/cas/cas.ts'
import { createDeliveryTokens } from '../infra/crypto/delivery-tokens.ts'
import { createPermanentTokens } from '../infra/crypto/permanent-tokens.ts'
import { createVisits } from '../infra/crypto/visits.ts'
import { follow, type SetConnected } from '../infra/db/feed.ts'
import { holdRequests, type Listen, openServer, type ServerLimits } from '../infra/listen.ts'
import type { Logger } from '../infra/log.ts'
import { certificateFeed } from '../services/feeds/certificates.ts'
import { openDownloadCounts } from '../services/feeds/download-counts.ts'
import { createEdgeRegistration } from '../services/feeds/edges.ts'
import { routeFeed } from '../services/feeds/routes.ts'
import { startCatchUp } from './catch-up.ts'
import { type CertificateTable, createCertificateGetter, openCertificateTable } from './certificates.ts'
import { openContent } from './content.ts'
import { createHandler } from './handler.ts'
import { openRouteTable, type RouteTable } from './routes.ts'
import { openTraffic } from './traffic/traffic.ts'

/**
 * Visitors send no bodies. A visitor who reads nothing for a minute holds an open file and at most 128 KiB, or 512 KiB for up to 64 visitors
 * who kept up before. `clients.ts` limits the requests and the large files that one address has under way at once. Caddy in front has the
 * same limit for what it sends by itself.
 */
export const edgeLimits: ServerLimits = { requestTimeoutMs: 60_000, stalledMs: stalledVisitMs }

export interface EdgeOptions {
  /** Sites are `<subdomain>.<platformDomain>`. */
  readonly platformDomain: string
  /** The base URL of the platform, whose scheme and port all links have. */
  readonly baseUrl: string
  /** Preview links are `<previewUrl>/<token>/`. */
  readonly previewUrl: string
  readonly databaseUrl: string
  readonly cas: Cas
  /** Keeps routes and certificates for a start without PostgreSQL. */
  readonly snapshotDir: string
  readonly listen: Listen
  /** Whether Caddy is in front and sends large files of the storage by itself. */
  readonly caddySends?: boolean | undefined
  /** When undefined, HTTP-01 challenges are not answered, Caddy gets no certificates, and no permanent link and no link to a file opens, and no visit passes. */
  readonly certificates?: EdgeCertificates | undefined
  /** Where hits wait until they are counted in PostgreSQL. When undefined, or without `certificates`, nothing is counted. */
  readonly trafficDir?: string | undefined
  /** The clock of hits. */
  readonly now?: (() => number) | undefined
  readonly log: Logger
}

export interface EdgeCertificates {
  /** PLINTH_SECRET_KEY */
  readonly secretKey: Uint8Array
  /** Where Caddy requests certificates. */
  readonly listen: Listen
  /** Whether the host belongs to the platform itself. */
  readonly isPlatformHost: (host: string) => boolean
  /** Whether Caddy issues the certificates of custom domains by its own authority, because none are ordered from another one. */
  readonly isLocalAuthority: boolean
}

export interface Edge extends AsyncDisposable {
  /** Undefined when it listens on a unix socket. */
  readonly port: number | undefined
  readonly certificatesPort: number | undefined
}

/** For Caddy's requests of certificates: it runs on this machine, and waits in the middle of a handshake. */
const getterLimits: ServerLimits = { requestTimeoutMs: 10_000 }

/**
 * Takes connections at once, but answers nothing before it has read what has changed since its snapshot; while PostgreSQL is away it serves the
 * snapshot after a second. Serves when this returns; disposing drains.
 */
export async function openEdge(options: EdgeOptions): Promise<Edge> {
  const { platformDomain, baseUrl, previewUrl, caddySends, log } = options
  await using opened = new AsyncDisposableStack()
  const routes = opened.use(await openRouteTable(options))
  const certificates = opened.use(await openCertificateTable(options))
  const content = openContent(options.cas)
  const thumbprint = options.certificates && acmeAccount(options.certificates.secretKey).thumbprint
  const isSecured = (host: string) => certificates.find(host) !== undefined
  const permanentTokens = options.certificates && createPermanentTokens(options.certificates.secretKey)
  const deliveryTokens = options.certificates && createDeliveryTokens(options.certificates.secretKey)
  const visits = options.certificates && createVisits(options.certificates.secretKey)
  const downloadCounts = opened.use(openDownloadCounts(options.databaseUrl, log))
  const traffic = openCounting(options)
  if (traffic) opened.use(traffic)
  const tokens = { permanentTokens, deliveryTokens, visits }
  const hosts = { platformDomain, baseUrl, previewUrl }
  const sources = { routes, content, downloadCounts, isSecured, thumbprint }
  const handler = createHandler({ ...hosts, ...tokens, ...sources, caddySends, traffic, log })
  const held = holdRequests()
  const server = opened.use(await openServer(held.listener, options.listen, edgeLimits))
  const getter = options.certificates && opened.use(await openGetter(options.certificates, certificates, routes, log))
  const { answered, done, over } = startCatchUp()
  const setConnected: SetConnected = (now, why) => {
    routes.setConnected(now, why)
    if (now) done()
  }
  const feeds = [routeFeed(routes, createEdgeRegistration(log)), certificateFeed(certificates)]
  opened.use(follow(options.databaseUrl, feeds, setConnected, { answered }))
  await over
  held.passTo(handler)
  const stack = opened.move()
  return { port: server.port, certificatesPort: getter?.port, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

function openCounting({ trafficDir: dir, certificates, databaseUrl, now, log }: EdgeOptions) {
  if (dir === undefined || !certificates) return undefined
  return openTraffic({ dir, databaseUrl, secretKey: certificates.secretKey, now, log })
}

function openGetter(
  { secretKey, listen, isPlatformHost, isLocalAuthority }: EdgeCertificates,
  certificates: CertificateTable,
  routes: RouteTable,
  log: Logger,
) {
  const isRoutable = (host: string) => isPlatformHost(host) || routes.find(host)?.route.trashed === false
  // a wildcard would permit any number of names
  const isCustomDomain = (host: string) => routes.find(host)?.route.domains.some(({ domain }) => domain === host) ?? false
  const isPermitted = (host: string) => isLocalAuthority && isCustomDomain(host) && isRoutable(host)
  const getter = createCertificateGetter({ certificates, isRoutable, isPermitted, secretKey, log })
  return openServer(getter, listen, getterLimits)
}
