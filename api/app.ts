import type { RequestListener } from 'node:http'
import Koa, { type Context as KoaContext, type Next } from 'koa'
import { createCounter } from '../infra/limits.ts'
import { createAuthenticator } from './authenticate.ts'
import { dropBody } from './body.ts'
import { clientNetwork } from './client-network.ts'
import type { Caller, Context, Deps } from './context.ts'
import { type Documents, serveDocuments } from './documents.ts'
import { leavingOf } from './event-stream.ts'
import { attention, readiness } from './health.ts'
import { errorBody, setErrorHeaders, statusOf, visibleError } from './http-errors.ts'
import { runnerRoutes } from './internal/runner-routes.ts'
import { loggedPath } from './logged-path.ts'
import type { ToolServer } from './mcp.ts'
import { createToolEndpoint } from './mcp-http.ts'
import { createMetrics, type Metrics, routeOf } from './metrics.ts'
import { operations } from './operations/index.ts'
import { createOperatorGuard, type OperatorGuard } from './operator/authenticate.ts'
import { operatorOperations } from './operator/index.ts'
import { type RecordRequest, requestRecorder } from './record-request.ts'
import { refuseUnrouted, restRouter } from './rest.ts'
import { accessRoutes } from './visitor/access.ts'
import { formRoutes } from './visitor/forms.ts'
import { createBlockedPosts } from './visitor/refuse-blocked.ts'
import { testPaymentRoutes } from './visitor/test-payments.ts'
import { gitHooks } from './webhooks/git-hooks.ts'
import { messengerHooks } from './webhooks/messengers.ts'
import { paymentHooks } from './webhooks/payments.ts'

/** The operator as a caller: every scope, no project. */
const operator: Caller = {
  key: { id: 'operator', name: 'operator', last_used_at: null },
  scope: 'full',
  project_id: '',
  project_name: '',
  plan: 'enterprise',
  suspended: false,
  suspended_reason: null,
}

/** Refusals of posts from one address in a minute after which further ones are refused without being looked at. */
const maxRefusals = 60

export interface ListenerDeps extends Deps {
  readonly operatorToken: string
  readonly runnerToken: string
  readonly documents: Documents
  readonly tools: ToolServer
  /** How long hosts wait at most until they are looked up together; a second when absent. */
  readonly hostLookUpGapMs?: number
}

/** The control plane. Every request passes the middleware in the order of the last lines, except for posts that are refused before. */
export function createListener(deps: ListenerDeps): RequestListener {
  const guard = createOperatorGuard(deps.operatorToken)
  const metrics = createMetrics(deps)
  const record = requestRecorder(deps, metrics)
  const authenticate = createAuthenticator(deps)
  const project = restRouter(operations, async (koa) => {
    const caller = await authenticate(koa)
    const db = deps.admission.databaseOf({ kind: 'project', id: caller.project_id })
    return { ...deps, caller, db, leaving: leavingOf(koa, deps.draining) }
  })
  const operatorRouter = restRouter(operatorOperations, async (koa): Promise<Context> => {
    await guard.admit(authorizationOf(koa), clientNetwork(koa.req))
    return { ...deps, caller: operator, leaving: leavingOf(koa, deps.draining) }
  })
  const blocks = createCounter(maxRefusals)
  const forms = formRoutes(deps, blocks)
  const access = accessRoutes(deps, deps.hostLookUpGapMs)
  const hooks = gitHooks(deps)
  const bots = messengerHooks(deps)
  const payments = paymentHooks(deps)
  const testPayments = testPaymentRoutes(deps)
  const runners = runnerRoutes(deps)

  const app = new Koa()
  // Koa's own listener prints broken connections to stderr
  app.on('error', (error: unknown) => deps.log.debug({ err: error }, 'connection broken'))
  app.use(observeRequests(record))
  app.use(setHeaders)
  app.use(answerErrors(deps))
  app.use(dropUnreadBodies)
  app.use(serveHealth(deps, guard))
  app.use(serveMetrics(metrics, guard))
  app.use(serveDocuments(deps.documents))
  app.use(createToolEndpoint(deps.tools, deps, authenticate))
  app.use(forms.routes())
  app.use(access.routes())
  app.use(hooks.routes())
  app.use(bots.routes())
  app.use(payments.routes())
  app.use(testPayments.routes())
  app.use(runners.routes())
  app.use(project.routes())
  app.use(operatorRouter.routes())
  app.use((koa) => refuseUnrouted(koa, [forms, access, hooks, bots, payments, testPayments, runners, project, operatorRouter]))

  const refuseBlocked = createBlockedPosts(deps, blocks, usualHeaders, record)
  const answer = app.callback()
  return (request, response) => {
    if (!refuseBlocked(request, response)) void answer(request, response)
  }
}

const authorizationOf = (koa: KoaContext) => koa.get('authorization') || undefined

/** Measures and logs every request. */
function observeRequests(record: RecordRequest) {
  return async (koa: KoaContext, next: Next): Promise<void> => {
    const startedAt = performance.now()
    await next()
    const ms = performance.now() - startedAt
    record({ route: routeOf(koa), method: koa.method, path: koa.path, status: koa.status, ms })
  }
}

/** Responses are for one caller at one moment. */
const usualHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const

async function setHeaders(koa: KoaContext, next: Next): Promise<void> {
  koa.set(usualHeaders)
  await next()
}

function answerErrors({ log }: Pick<Deps, 'log'>) {
  return async (koa: KoaContext, next: Next): Promise<void> => {
    try {
      await next()
    } catch (error) {
      const visible = visibleError(error)
      if (!visible) log.error({ err: error, method: koa.method, path: loggedPath(koa.path) }, 'request failed')
      koa.status = visible ? statusOf[visible.kind] : 500
      koa.body = errorBody(visible)
      setErrorHeaders(koa, visible)
    }
  }
}

async function dropUnreadBodies({ req, res }: KoaContext, next: Next): Promise<void> {
  res.once('finish', () => dropBody(req))
  await next()
}

function serveHealth(deps: Deps, guard: OperatorGuard) {
  return async (koa: KoaContext, next: Next): Promise<void> => {
    if (koa.path === '/healthz') koa.body = { ok: true }
    else if (koa.path === '/readyz') {
      const { ready, dependencies } = await readiness(deps)
      koa.status = ready ? 200 : 503
      if (!ready) koa.set('plinth-error', 'unavailable')
      const isOperator = guard.isOperator(authorizationOf(koa))
      koa.body = isOperator ? { ok: ready, dependencies, attention: ready ? await attention(deps) : undefined } : { ok: ready }
    } else await next()
  }
}

function serveMetrics(metrics: Metrics, guard: OperatorGuard) {
  return async (koa: KoaContext, next: Next): Promise<void> => {
    if (koa.path !== '/metrics' || koa.method !== 'GET') return await next()
    await guard.admit(authorizationOf(koa), clientNetwork(koa.req))
    koa.body = await metrics.text()
    koa.type = metrics.contentType
  }
}
