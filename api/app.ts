import { Readable } from 'node:stream'
import Koa, { type Context as KoaContext, type Next } from 'koa'
import { AppError } from '../core/errors.ts'
import { maxToolBodyBytes } from '../core/limits.ts'
import { authenticate } from './authenticate.ts'
import { readJson } from './body.ts'
import type { Caller, Context, Deps } from './context.ts'
import { docsPage } from './docs.ts'
import { readiness } from './health.ts'
import { internalMessage, statusOf, visibleError } from './http-errors.ts'
import { createToolServer } from './mcp.ts'
import { openApiDocument } from './openapi.ts'
import { operations } from './operations/index.ts'
import { createOperatorGuard } from './operator/authenticate.ts'
import { operatorOperations } from './operator/index.ts'
import { refuseUnrouted, restRouter } from './rest.ts'

/** The operator as a caller: every scope, no project. */
const operator: Caller = {
  key: { id: 'operator', name: 'operator', last_used_at: null },
  scope: 'full',
  project_id: '',
  project_name: '',
  plan: 'enterprise',
  suspended: false,
}

/** Caddy is the only peer, and sets this header to exactly one address. */
const clientAddress = (koa: KoaContext) => koa.get('x-forwarded-for') || koa.ip

/** The control plane. Every request passes the middleware in the order of the last lines. */
export function createApp(deps: Deps & { readonly operatorToken: string }): Koa {
  const guard = createOperatorGuard(deps.operatorToken)
  const project = restRouter(operations, async (koa) => ({
    ...deps,
    caller: await authenticate(deps, koa.get('authorization') || undefined),
  }))
  const operatorRouter = restRouter(operatorOperations, async (koa): Promise<Context> => {
    await guard.admit(koa.get('authorization') || undefined, clientAddress(koa))
    return { ...deps, caller: operator }
  })
  const document = JSON.stringify(openApiDocument(operations, deps.config.urls.base))
  const docs = docsPage(operations, deps.config.urls.base)
  const serveTools = createToolServer(operations)
  const origins = new Set([deps.config.urls.base, deps.config.urls.mcp])

  async function logRequest(koa: KoaContext, next: Next): Promise<void> {
    const startedAt = performance.now()
    await next()
    const ms = Math.round(performance.now() - startedAt)
    deps.log.debug({ method: koa.method, path: koa.path, status: koa.status, ms }, 'request answered')
  }

  async function setHeaders(koa: KoaContext, next: Next): Promise<void> {
    // answers are about one caller and one moment
    koa.set('cache-control', 'no-store')
    koa.set('x-content-type-options', 'nosniff')
    await next()
  }

  async function answerErrors(koa: KoaContext, next: Next): Promise<void> {
    try {
      await next()
    } catch (error) {
      const visible = visibleError(error)
      if (!visible) deps.log.error({ err: error, method: koa.method, path: koa.path }, 'request failed')
      koa.status = visible ? statusOf[visible.kind] : 500
      koa.body = { message: visible?.message ?? internalMessage }
      setErrorHeaders(koa, visible)
    }
  }

  async function serveHealth(koa: KoaContext, next: Next): Promise<void> {
    if (koa.path === '/healthz') koa.body = { ok: true }
    else if (koa.path === '/readyz') {
      const { ready, dependencies } = await readiness(deps)
      koa.status = ready ? 200 : 503
      koa.body = guard.isOperator(koa.get('authorization') || undefined) ? { ok: ready, dependencies } : { ok: ready }
    } else await next()
  }

  async function serveDocuments(koa: KoaContext, next: Next): Promise<void> {
    if (koa.method !== 'GET' && koa.method !== 'HEAD') return await next()
    if (koa.path === '/api/v1/openapi.json') answerText(koa, 'application/json', document)
    else if (koa.path === '/docs') answerText(koa, 'text/html', docs)
    else if (koa.path === '/') koa.redirect('/docs')
    else await next()
  }

  async function serveToolCalls(koa: KoaContext, next: Next): Promise<void> {
    if (koa.path !== '/mcp') return await next()
    if (koa.method !== 'POST') {
      throw new AppError('method_not_allowed', 'the tool server takes POST with a JSON-RPC 2.0 message', { allow: ['POST'] })
    }
    // a browser page of another origin must not use the tools with a key that it tricked its way to
    const origin = koa.get('origin')
    if (origin !== '' && !origins.has(origin))
      throw new AppError('forbidden', `the tool server does not answer pages of ${origin}`)
    const ctx = { ...deps, caller: await authenticate(deps, koa.get('authorization') || undefined) }
    const body = await readJson(koa.req, maxToolBodyBytes)
    await respond(koa, await serveTools(toolRequest(koa, deps.config.urls.mcp), body, ctx))
  }

  const app = new Koa()
  // Koa's own listener prints broken connections to stderr
  app.on('error', (error: unknown) => deps.log.debug({ err: error }, 'connection broken'))
  app.use(logRequest)
  app.use(setHeaders)
  app.use(answerErrors)
  app.use(serveHealth)
  app.use(serveDocuments)
  app.use(serveToolCalls)
  app.use(project.routes())
  app.use(operatorRouter.routes())
  app.use((koa) => refuseUnrouted(koa, [project, operatorRouter]))
  return app
}

function answerText(koa: KoaContext, type: string, text: string): void {
  koa.type = type
  koa.body = text
  koa.set('cache-control', 'no-cache')
  if (type === 'text/html') koa.set('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
}

function setErrorHeaders(koa: KoaContext, error: AppError | undefined): void {
  if (error?.kind === 'unauthorized') koa.set('www-authenticate', 'Bearer')
  if (error?.details.retryAfterSeconds !== undefined) koa.set('retry-after', String(error.details.retryAfterSeconds))
  if (error?.details.allow) koa.set('allow', error.details.allow.join(', '))
}

/** The request as the tool server's library wants it; the `Accept` that curl sends would be refused. */
function toolRequest(koa: KoaContext, base: string): Request {
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' })
  for (const name of ['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id']) {
    const value = koa.get(name)
    if (value !== '') headers.set(name, value)
  }
  return new Request(new URL('/mcp', base), { method: 'POST', headers })
}

async function respond(koa: KoaContext, response: Response): Promise<void> {
  const type = response.headers.get('content-type')
  koa.body = response.body ? Readable.fromWeb(response.body as never) : null
  // Koa makes an empty body a 204, so the status comes last
  koa.status = response.status
  if (type) koa.type = type
}
