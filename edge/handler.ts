import type { IncomingMessage, RequestListener } from 'node:http'
import { LRUCache } from 'lru-cache'
import { deliveryPath } from '../core/delivery-files.ts'
import { parseHost } from '../core/hosts.ts'
import { encodePath, parseRequestPath, type RequestTarget } from '../core/request-path.ts'
import { challengeAnswer } from '../infra/acme/account.ts'
import type { Logger } from '../infra/log.ts'
import type { Route } from '../services/feeds/routes.ts'
import { type Answered, whenRead } from './answered.ts'
import { createClientLimit, maxDownloadsOfAddress, maxRequestsOfAddress } from './clients.ts'
import type { Content } from './content.ts'
import { createDeliveries, type DeliveryOptions } from './deliveries.ts'
import { createGate, type GateOptions } from './gate.ts'
import { createKnownRequests } from './known-requests.ts'
import { createOrigins } from './origins.ts'
import { pages } from './pages.ts'
import { VisitorLeft } from './piece-writer.ts'
import { createPreviews, type PreviewOptions } from './preview.ts'
import { type Exchange, sendFile, sendPage, sendRedirect, sendText } from './respond.ts'
import type { FoundSite } from './routes.ts'
import { findInDeploy, sendFound } from './serve.ts'
import { isOwnAddress, type SiteFile } from './site-files.ts'
import type { Traffic } from './traffic/traffic.ts'

export interface HandlerOptions extends PreviewOptions, DeliveryOptions, GateOptions {
  readonly platformDomain: string
  /** The base URL of the platform, whose scheme and port all links have. */
  readonly baseUrl: string
  readonly routes: PreviewOptions['routes'] &
    GateOptions['routes'] & {
      find(host: string): FoundSite | undefined
      /** False while the table may lack a site. */
      readonly connected: boolean
    }
  /** Whether there is a certificate for the host; none when absent. */
  readonly isSecured?: ((host: string) => boolean) | undefined
  /** The thumbprint of the ACME account. When undefined, challenges are not answered. */
  readonly thumbprint?: string | undefined
  /** Whether Caddy is in front and sends large files of the storage by itself. */
  readonly caddySends?: boolean | undefined
  /** When undefined, nothing is counted. */
  readonly traffic?: Traffic | undefined
  readonly log: Logger
}

/** Answers visitors of sites. Each request looks up its route once, so that it never sees two deploys. */
export function createHandler(options: HandlerOptions): RequestListener {
  const { log, traffic, caddySends = false } = options
  const downloads = createClientLimit(maxDownloadsOfAddress)
  const requests = createClientLimit(maxRequestsOfAddress)
  const answer = createAnswer(options)
  const report = failureReporter(log)
  function fail(exchange: Exchange, error: Error): void {
    const { res } = exchange
    if (error instanceof VisitorLeft) return
    report(error)
    if (res.headersSent) res.destroy()
    else sendPage(exchange, pages.tryAgain)
  }
  return (req, res) => {
    const of = { overlay: undefined, traffic, siteId: undefined, compressed: false }
    const exchange: Exchange = { req, res, downloads, caddySends, ...of }
    if (log.isLevelEnabled('debug')) logAnswer(exchange, log)
    if (requests.isFull(req)) return sendPage(exchange, pages.tooManyRequests)
    try {
      const waiting = answer(exchange)
      // what memory has answered is over by now, unless its reader has fallen behind
      const end = waiting || req.socket.writableLength > 0 ? requests.start(req) : undefined
      if (end) res.on('close', end)
      waiting?.catch((error: Error) => fail(exchange, error))
    } catch (error) {
      fail(exchange, error as Error)
    }
  }
}

function logAnswer(exchange: Exchange, log: Logger): void {
  const { req, res } = exchange
  const { method, url, headers } = req
  // the URL of a preview is its secret, and so is that of a delivery
  const isSecret = () => exchange.overlay !== undefined || url?.toLowerCase().includes('svc/')
  const location = () => (isSecret() ? {} : { host: headers.host, url })
  res.on('close', () => log.debug({ method, ...location(), status: res.statusCode }, 'request answered'))
}

/** Decides who answers a request. What is in memory is sent at once, because a promise costs as much as all look-ups together. */
function createAnswer(options: HandlerOptions): (exchange: Exchange) => Answered {
  const { platformDomain, routes, content, thumbprint } = options
  const deliveries = createDeliveries(options)
  const gate = createGate(options)
  const origins = createOrigins(options)
  const previews = createPreviews({ ...options, gate, origins })
  const knownRequests = createKnownRequests(routes, origins)
  const underPlatform = `.${platformDomain}`

  return (exchange) => {
    const { req } = exchange
    const hosts = hostHeaders(req)
    const [rawHost = ''] = hosts
    const isUsual = hosts.length === 1 && isReading(req) && req.httpVersionMajor === 1
    const known = isUsual ? knownRequests.find(req, rawHost) : undefined
    if (known) {
      exchange.siteId = known.siteId
      exchange.compressed = known.compressed
      return sendFile(exchange, content, known.file, 200)
    }
    const proof = thumbprint !== undefined && isReading(req) && challengeAnswer(pathOf(req), thumbprint)
    if (proof) return sendText(exchange, proof)
    const host = parseHost(hosts)
    if (host !== undefined && !host.endsWith(underPlatform)) exchange.overlay = previews.overlayOf(host)
    if (!isReading(req)) return sendPage(exchange, pages.methodNotAllowed)
    const target = req.httpVersionMajor === 1 ? parseRequestPath(req.url ?? '') : undefined
    if (!target || host === undefined) return sendPage(exchange, pages.badRequest)
    if (target.authority !== undefined && parseHost([target.authority]) !== host) return sendPage(exchange, pages.badRequest)

    if (exchange.overlay) return previews.answer(exchange, host, target)
    const found = routes.find(host)
    if (!found) return sendPage(exchange, routes.connected ? pages.unknownSite : pages.tryAgain)
    const { route, redirect } = found
    if (route.trashed) return sendPage(exchange, pages.unknownSite)
    const address = () => encodePath(target.path) + target.query
    if (redirect) return sendRedirect(exchange, redirect.status, origins.of(redirect.host, req) + address())
    const secure = origins.toSecure(host, req)
    if (secure !== undefined) return sendRedirect(exchange, 308, secure + address())
    if (!route.enabled || route.suspended) return sendPage(exchange, pages.unavailable)
    if (target.path.startsWith(deliveryPath)) return deliveries.answer(exchange, route, target.path)
    const { lock } = route
    if (!lock) {
      const remember = (file: SiteFile) => knownRequests.remember(req, rawHost, host, found, file)
      return serveSite(exchange, content, route, target, remember)
    }
    const wanted = { host, path: target.path, isSecure: origins.isSecure(req), address }
    return gate.answer(exchange, route, lock, wanted, () => serveSite(exchange, content, route, target))
  }
}

/** @param remember takes the file when later requests for the same target may get it without being evaluated */
function serveSite(
  exchange: Exchange,
  content: Content,
  route: Route,
  { path, query }: RequestTarget,
  remember?: (file: SiteFile) => void,
): Answered {
  const { manifest_sha256, retained_sha256, canonical_urls } = route
  if (manifest_sha256 === null) return sendPage(exchange, pages.notPublished)
  exchange.siteId = route.site_id
  exchange.compressed = route.compressed
  const wanted = { path, query, manifest_sha256, retained_sha256, canonical_urls, prefix: '' }
  return whenRead(findInDeploy(content, wanted), (found) => {
    // visitors can invent any number of other targets
    const isOwn = found.kind === 'file' && found.status === 200 && query === '' && isOwnAddress(found.file.path, path)
    if (isOwn) remember?.(found.file)
    return sendFound(exchange, content, found)
  })
}

const isReading = ({ method }: IncomingMessage) => method === 'GET' || method === 'HEAD'
const pathOf = ({ url = '' }: IncomingMessage) => url.split('?', 1)[0] ?? ''

/** `req.headers` shows only the first of several Host headers. */
function hostHeaders({ rawHeaders }: IncomingMessage): string[] {
  const hosts: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.length === 4 && rawHeaders[i]?.toLowerCase() === 'host') hosts.push(rawHeaders[i + 1] ?? '')
  }
  return hosts
}

/** Each failure is logged once a minute, not once a request. */
function failureReporter(log: Logger) {
  const reported = new LRUCache<string, true>({ max: 1000, ttl: 60_000 })
  return (error: Error) => {
    if (reported.has(error.message)) return
    reported.set(error.message, true)
    log.error({ err: error }, 'request failed')
  }
}
