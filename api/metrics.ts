import type { Context as KoaContext } from 'koa'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { sourceKinds } from '../core/deploy.ts'
import { type Db, isDatabaseAway } from '../infra/db/database.ts'
import { countUnendedDeploys } from '../services/builds/permits.ts'
import { allBuildMinutes, listBuildTotals } from '../services/projects/usage.ts'
import { readStorageHealth } from '../services/storage/health.ts'
import { waitingMessages } from '../services/workflow-messages.ts'
import { buildOutcomes } from '../workflows/contract/builds.ts'
import type { AdmissionFigures } from './admission.ts'
import type { Deps } from './context.ts'

const durationBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60]
/** Addresses outside of the registry that have a name of their own; all others share one, because anybody can make them up. */
const plainRoutes = new Set(['/', '/docs', '/healthz', '/llms.txt', '/mcp', '/metrics', '/readyz', '/api/v1/openapi.json'])

export interface Metrics {
  readonly contentType: string
  observeRequest(koa: KoaContext, seconds: number): void
  /** Everything in Prometheus' text format. While PostgreSQL is away only what this process knows by itself. */
  text(): Promise<string>
}

/** What a monitoring system reads. Figures of PostgreSQL are those of the whole installation, whichever process is asked. */
export function createMetrics({ db, config, clock, admission }: Pick<Deps, 'db' | 'config' | 'clock' | 'admission'>): Metrics {
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
    help: 'Builds that one runner runs at once, as this process is configured.',
    registers: [own],
  }).set(config.build.slots)
  const admitted = admissionMetrics(own)
  const stored = storedMetrics()

  return {
    contentType: own.contentType,
    observeRequest(koa, seconds) {
      durations.observe({ route: routeOf(koa), status: koa.status }, seconds)
    },
    async text() {
      admitted.set(admission.figures())
      try {
        stored.set(await readFigures(db, clock()))
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

/** The template of the route, never the path: it would be another one for each site. */
function routeOf(koa: KoaContext): string {
  const { _matchedRoute: matched } = koa as KoaContext & { readonly _matchedRoute?: unknown }
  if (typeof matched === 'string') return `${koa.method} ${matched.replaceAll(/:(\w+)/g, '{$1}')}`
  return plainRoutes.has(koa.path) ? `${koa.method} ${koa.path}` : 'other'
}

/** What this process has taken on, and refused. */
function admissionMetrics(registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const held = {
    requests: gauge('plinth_requests_under_way', 'Requests of projects and webhooks that this process is working on.'),
    memory: gauge('plinth_body_memory_bytes', 'Bytes of request bodies that this process holds in memory.'),
    spool: gauge('plinth_body_spool_bytes', 'Bytes of request bodies that this process holds in files.'),
  }
  const large = gauge('plinth_large_requests_waiting', 'Requests of deploy-files that wait for the one that is processed.')
  const connections = gauge('plinth_database_connections_used', 'Connections to the database that projects are using.')
  const waiting = gauge('plinth_database_connections_waiting', 'Requests of projects that wait for such a connection.')
  const refused = new Counter({
    name: 'plinth_requests_refused_total',
    help: 'Requests refused because a payer had its share (429), or the server too little left (503), by the resource and whose limit it was.',
    labelNames: ['reason'],
    registers,
  })
  return {
    set(figures: AdmissionFigures): void {
      held.requests.set(figures.held.requests)
      held.memory.set(figures.held.memory)
      held.spool.set(figures.held.spool)
      large.set(figures.largeRequestsWaiting)
      connections.set(figures.connectionsHeld)
      waiting.set(figures.connectionsWaiting)
      refused.reset()
      for (const [reason, count] of figures.refused) refused.inc({ reason }, count)
    },
  }
}

type Figures = Awaited<ReturnType<typeof readFigures>>

async function readFigures(db: Db, now: Date) {
  const [unended, totals, minutes, messages, storage] = await Promise.all([
    countUnendedDeploys(db),
    listBuildTotals(db),
    allBuildMinutes(db, now),
    waitingMessages(db),
    readStorageHealth(db),
  ])
  return { now, unended, totals, minutes, messages, storage }
}

function storedMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const waiting = new Gauge({
    name: 'plinth_deploys_waiting',
    help: 'Deploys in the status queued, by what they come from.',
    labelNames: ['kind'],
    registers,
  })
  const running = gauge('plinth_builds_running', 'Builds that a runner has begun and not ended.')
  const queueLength = gauge('plinth_build_queue_length', 'Builds that wait: for their turn or for a free slot.')
  const withoutTurn = gauge(
    'plinth_build_turns_waiting',
    'Builds of the queue that wait for an earlier build of their site or for the number of their project.',
  )
  const queueAge = gauge('plinth_build_queue_oldest_seconds', 'Since when the oldest build of the queue waits; 0 when none does.')
  const minutesOfMonth = gauge('plinth_build_minutes_month', 'Build minutes of all projects in this calendar month (UTC).')
  const messages = gauge('plinth_workflow_messages_waiting', 'Starts of workflows and signals that Temporal has not taken yet.')
  const messageAge = gauge('plinth_workflow_messages_oldest_seconds', 'Since when the oldest of them waits; 0 when none does.')
  const builds = new Counter({
    name: 'plinth_builds_total',
    help: 'Builds that have ended: built, failed because of their source, or because of the platform.',
    labelNames: ['outcome'],
    registers,
  })
  const buildSeconds = new Counter({
    name: 'plinth_build_seconds_sum',
    help: 'Seconds of all builds that have ended, from the runner that began to the result.',
    registers,
  })
  const buildCount = new Counter({ name: 'plinth_build_seconds_count', help: 'Builds in plinth_build_seconds_sum.', registers })

  const damagedObjects = new Gauge({
    name: 'plinth_storage_damaged_objects',
    help: 'Objects of the storage that nobody can read until they are sent again; GET /operator/v1/storage tells whose they are.',
    registers,
  })
  const verifiedBytes = new Gauge({
    name: 'plinth_storage_verified_bytes',
    help: 'Bytes of all objects when they were last compared with their hashes.',
    registers,
  })
  const unverifiedShare = new Gauge({
    name: 'plinth_storage_unverified_share',
    help: 'Share of the storage that was never compared with its hashes, 0 to 1.',
    registers,
  })
  const verificationAge = new Gauge({
    name: 'plinth_storage_oldest_verification_seconds',
    help: 'Age of the oldest comparison with the hashes; about five days when all is well.',
    registers,
  })

  return {
    registry,
    set({ now, unended, totals, minutes, messages: waitingMessage, storage }: Figures): void {
      const secondsSince = (time: Date | null | undefined) => (time ? Math.max(0, (now.getTime() - time.getTime()) / 1000) : 0)
      const sum = (rows: Figures['unended']) => rows.reduce((total, row) => total + row.count, 0)
      const queued = unended.filter((row) => row.status === 'queued')
      const queue = queued.filter((row) => row.is_build)
      for (const kind of sourceKinds) waiting.set({ kind }, sum(queued.filter((row) => row.source_kind === kind)))
      running.set(sum(unended.filter((row) => row.is_build && row.status === 'building')))
      queueLength.set(sum(queue))
      withoutTurn.set(sum(queue.filter((row) => !row.has_turn)))
      queueAge.set(Math.max(0, ...queue.map((row) => secondsSince(row.oldest))))
      minutesOfMonth.set(minutes)
      messages.set(waitingMessage.count)
      messageAge.set(secondsSince(waitingMessage.oldest))
      damagedObjects.set(storage.damaged)
      verifiedBytes.set(storage.bytes)
      unverifiedShare.set(1 - storage.verified_prefixes / 256)
      verificationAge.set(secondsSince(storage.oldest))
      // the counters live in PostgreSQL, where all processes see the same
      for (const counter of [builds, buildSeconds, buildCount]) counter.reset()
      for (const outcome of buildOutcomes) {
        const total = totals.find((row) => row.outcome === outcome)
        builds.inc({ outcome }, total?.builds ?? 0)
        buildSeconds.inc((total?.milliseconds ?? 0) / 1000)
        buildCount.inc(total?.builds ?? 0)
      }
    },
  }
}
