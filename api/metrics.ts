import type { Context as KoaContext } from 'koa'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { isDatabaseAway } from '../infra/db/errors.ts'
import type { AdmissionFigures } from './admission.ts'
import type { Deps } from './context.ts'
import { createStoredMetrics } from './stored-metrics.ts'

const durationBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60]
/** Paths outside of the registry that have a label of their own; all others share one, because callers can make them up. */
const plainRoutes = new Set([
  '/',
  '/docs',
  '/docs/operator',
  '/healthz',
  '/llms.txt',
  '/mcp',
  '/metrics',
  '/readyz',
  '/api/v1/openapi.json',
  '/operator/v1/openapi.json',
])

export interface Metrics {
  readonly contentType: string
  /** @param route see {@link routeOf} */
  observeRequest(route: string, status: number, seconds: number): void
  /** All metrics in Prometheus' text format; while PostgreSQL is away, only those of this process. */
  text(): Promise<string>
}

/** The metrics for a monitoring system. Figures from PostgreSQL describe the whole installation, whichever process is scraped. */
export function createMetrics({
  db,
  config,
  clock,
  clockSkewMs,
  admission,
}: Pick<Deps, 'db' | 'config' | 'clock' | 'clockSkewMs' | 'admission'>): Metrics {
  const own = new Registry()
  collectDefaultMetrics({ register: own })
  const durations = new Histogram({
    name: 'plinth_http_request_duration_seconds',
    help: 'Time until a request was answered, by route and status; its _count is the number of requests.',
    labelNames: ['route', 'status'],
    buckets: durationBuckets,
    registers: [own],
  })
  const databaseUp = new Gauge({ name: 'plinth_database_up', help: 'Whether PostgreSQL answered this scrape.', registers: [own] })
  new Gauge({
    name: 'plinth_build_slots',
    help: 'Builds that one runner runs at once, from the settings of this process.',
    registers: [own],
  }).set(config.build.slots)
  const skew = new Gauge({
    name: 'plinth_clock_skew_ms',
    help: "Milliseconds by which the clock of this machine is ahead of PostgreSQL's.",
    registers: [own],
  })
  const admitted = admissionMetrics(own)
  const stored = createStoredMetrics(db)

  return {
    contentType: own.contentType,
    observeRequest(route, status, seconds) {
      durations.observe({ route, status }, seconds)
    },
    async text() {
      admitted.set(admission.figures())
      skew.set(clockSkewMs() ?? 0)
      try {
        await stored.read(clock())
      } catch (error) {
        if (!isDatabaseAway(error)) throw error
        databaseUp.set(0)
        return await own.metrics()
      }
      databaseUp.set(1)
      return `${await own.metrics()}\n${await stored.registry.metrics()}`
    },
  }
}

/** The template of the route, never the path, which differs for each site. */
export function routeOf(koa: KoaContext): string {
  const { _matchedRoute: matched } = koa as KoaContext & { readonly _matchedRoute?: unknown }
  if (typeof matched === 'string') return `${koa.method} ${matched.replaceAll(/:(\w+)/g, '{$1}')}`
  return plainRoutes.has(koa.path) ? `${koa.method} ${koa.path}` : 'other'
}

/** The requests that this process has admitted and refused. */
function admissionMetrics(registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const held = {
    requests: gauge('plinth_requests_under_way', 'Requests of projects and webhooks that this process is handling.'),
    memory: gauge('plinth_body_memory_bytes', 'Bytes of request bodies that this process holds in memory.'),
    spool: gauge('plinth_body_spool_bytes', 'Bytes of request bodies that this process holds in files.'),
    answers: gauge('plinth_answer_bytes', 'Bytes that this process keeps for large answers that are being sent.'),
  }
  const large = gauge('plinth_large_requests_waiting', 'Large deploy-files requests that wait while another one is processed.')
  const connections = gauge('plinth_database_connections_used', 'Database connections in use by projects.')
  const waiting = gauge('plinth_database_connections_waiting', 'Requests of projects that wait for a database connection.')
  const refused = new Counter({
    name: 'plinth_requests_refused_total',
    help: 'Requests refused because a payer reached its limit (429) or the server reached its own (503), by the resource and the limit.',
    labelNames: ['reason'],
    registers,
  })
  return {
    set(figures: AdmissionFigures): void {
      held.requests.set(figures.held.requests)
      held.memory.set(figures.held.memory)
      held.spool.set(figures.held.spool)
      held.answers.set(figures.held.answers)
      large.set(figures.largeRequestsWaiting)
      connections.set(figures.connectionsHeld)
      waiting.set(figures.connectionsWaiting)
      refused.reset()
      for (const [reason, count] of figures.refused) refused.inc({ reason }, count)
    },
  }
}
