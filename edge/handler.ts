import type { IncomingMessage, RequestListener } from 'node:http'
import { LRUCache } from 'lru-cache'
import { parseHost, subdomainOf } from '../core/hosts.ts'
import { decide, parseRequestPath } from '../core/serving.ts'
import type { Route } from '../infra/db/routes.ts'
import type { Logger } from '../infra/log.ts'
import type { Content } from './content.ts'
import { pages } from './pages.ts'
import { type Exchange, sendFile, sendPage, sendRedirect } from './respond.ts'

export interface HandlerOptions {
  readonly platformDomain: string
  readonly routes: {
    find(subdomain: string): Route | undefined
    /** False while a site may exist that the table does not know. */
    readonly connected: boolean
  }
  readonly content: Content
  readonly log: Logger
}

/** Answers visitors of sites. Each request looks its route up once, so that it never sees two deploys. */
export function createHandler(options: HandlerOptions): RequestListener {
  const { log } = options
  const reportFailure = failureReporter(log)
  return (req, res) => {
    if (log.isLevelEnabled('debug')) {
      const { method, url, headers } = req
      res.on('close', () => log.debug({ method, host: headers.host, url, status: res.statusCode }, 'request answered'))
    }
    answer({ req, res }, options).catch((error: Error) => {
      // a visitor who leaves early is no failure
      if (res.destroyed && isAbort(error)) return
      reportFailure(error)
      if (res.headersSent) res.destroy()
      else sendPage({ req, res }, pages.tryAgain)
    })
  }
}

async function answer(exchange: Exchange, { platformDomain, routes, content }: HandlerOptions): Promise<void> {
  const { req } = exchange
  if (req.method !== 'GET' && req.method !== 'HEAD') return sendPage(exchange, pages.methodNotAllowed)
  const target = req.httpVersionMajor === 1 ? parseRequestPath(req.url ?? '') : undefined
  const host = parseHost(hostHeaders(req))
  if (!target || host === undefined) return sendPage(exchange, pages.badRequest)
  if (target.authority !== undefined && parseHost([target.authority]) !== host) return sendPage(exchange, pages.badRequest)

  const subdomain = subdomainOf(host, platformDomain)
  const route = subdomain === undefined ? undefined : routes.find(subdomain)
  if (!route) return sendPage(exchange, routes.connected ? pages.unknownSite : pages.tryAgain)
  if (route.trashed) return sendPage(exchange, pages.unknownSite)
  if (!route.enabled || route.suspended) return sendPage(exchange, pages.unavailable)
  if (route.manifest_sha256 === null) return sendPage(exchange, pages.notPublished)

  const files = content.cachedFiles(route.manifest_sha256) ?? (await content.loadFiles(route.manifest_sha256))
  const decision = decide(target.path, (path) => files.has(path))
  switch (decision.kind) {
    case 'redirect':
      return sendRedirect(exchange, decision.location + target.query)
    case 'missing':
      return sendPage(exchange, pages.missingFile)
    case 'file':
      return await sendFile(exchange, content, files.get(decision.path), decision.status)
  }
}

/** `req.headers` shows only the first of several Host headers. */
function hostHeaders({ rawHeaders }: IncomingMessage): string[] {
  const hosts: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.length === 4 && rawHeaders[i]?.toLowerCase() === 'host') hosts.push(rawHeaders[i + 1] ?? '')
  }
  return hosts
}

const isAbort = (error: Error) =>
  ['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')

/** Each failure is logged once a minute, not once a request. */
function failureReporter(log: Logger) {
  const reported = new LRUCache<string, true>({ max: 1000, ttl: 60_000 })
  return (error: Error) => {
    if (reported.has(error.message)) return
    reported.set(error.message, true)
    log.error({ err: error }, 'request failed')
  }
}
