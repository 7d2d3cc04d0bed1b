import { Counter, Gauge, Registry } from 'prom-client'
import { sourceKinds } from '../core/deploy.ts'
import type { Db } from '../infra/db/database.ts'
import { countUnendedDeploys } from '../services/builds/permits.ts'
import { allBuildMinutes, listBuildTotals } from '../services/projects/usage.ts'
import { readDroppedHits } from '../services/stats/dropped.ts'
import { readStorageHealth } from '../services/storage/health.ts'
import { countStuckActivities } from '../services/stuck-activities.ts'
import { countMessages } from '../services/workflow-messages.ts'
import { buildOutcomes } from '../workflows/contract/builds.ts'

/** The metrics that PostgreSQL holds, in a registry of their own, because they are left out while it is away. */
export function createStoredMetrics(db: Db) {
  const registry = new Registry()
  const setters = [
    queueMetrics(registry),
    buildMetrics(registry),
    messageMetrics(registry),
    storageMetrics(registry),
    statsMetrics(registry),
  ]
  return {
    registry,
    async read(now: Date): Promise<void> {
      const figures = await readFigures(db, now)
      for (const set of setters) set(figures)
    },
  }
}

type Figures = Awaited<ReturnType<typeof readFigures>>

async function readFigures(db: Db, now: Date) {
  const [unended, totals, minutes, messages, stuckActivities, storage, droppedHits] = await Promise.all([
    countUnendedDeploys(db),
    listBuildTotals(db),
    allBuildMinutes(db, now),
    countMessages(db),
    countStuckActivities(db),
    readStorageHealth(db),
    readDroppedHits(db),
  ])
  return { now, unended, totals, minutes, messages, stuckActivities, storage, droppedHits }
}

const secondsSince = (time: Date | null | undefined, now: Date) =>
  time ? Math.max(0, (now.getTime() - time.getTime()) / 1000) : 0

const gaugesIn = (registry: Registry) => (name: string, help: string) => new Gauge({ name, help, registers: [registry] })

function queueMetrics(registry: Registry) {
  const gauge = gaugesIn(registry)
  const waiting = new Gauge({
    name: 'plinth_deploys_waiting',
    help: 'Deploys in the status queued, by the kind of their source.',
    labelNames: ['kind'],
    registers: [registry],
  })
  const running = gauge('plinth_builds_running', 'Builds that are running.')
  const queueLength = gauge('plinth_build_queue_length', 'Builds that wait for a permit or for a free slot.')
  const withoutPermit = gauge(
    'plinth_build_permits_waiting',
    'Builds in the queue that wait for a permit: for an earlier build of their site, or because of the limit of their project.',
  )
  const age = gauge(
    'plinth_build_queue_oldest_seconds',
    'How long the oldest build in the queue has waited; 0 when the queue is empty.',
  )

  return ({ now, unended }: Figures): void => {
    const sum = (rows: Figures['unended']) => rows.reduce((total, row) => total + row.count, 0)
    const queued = unended.filter((row) => row.status === 'queued')
    const queue = queued.filter((row) => row.is_build)
    for (const kind of sourceKinds) waiting.set({ kind }, sum(queued.filter((row) => row.source_kind === kind)))
    running.set(sum(unended.filter((row) => row.is_build && row.status === 'building')))
    queueLength.set(sum(queue))
    withoutPermit.set(sum(queue.filter((row) => !row.has_permit)))
    age.set(Math.max(0, ...queue.map((row) => secondsSince(row.oldest, now))))
  }
}

function buildMetrics(registry: Registry) {
  const registers = [registry]
  const minutesOfMonth = gaugesIn(registry)(
    'plinth_build_minutes_month',
    'Build minutes of all projects in this calendar month (UTC).',
  )
  const builds = new Counter({
    name: 'plinth_builds_total',
    help: 'Builds that have ended, by outcome: built, failed because of their source, failed because of the platform, or cancelled.',
    labelNames: ['outcome'],
    registers,
  })
  const seconds = new Counter({
    name: 'plinth_build_seconds_sum',
    help: 'Total duration of all builds that have ended, from the start on a runner to the result.',
    registers,
  })
  const count = new Counter({ name: 'plinth_build_seconds_count', help: 'Builds in plinth_build_seconds_sum.', registers })

  return ({ totals, minutes }: Figures): void => {
    minutesOfMonth.set(minutes)
    // PostgreSQL keeps the totals, so that all processes report the same
    for (const counter of [builds, seconds, count]) counter.reset()
    for (const outcome of buildOutcomes) {
      const total = totals.find((row) => row.outcome === outcome)
      builds.inc({ outcome }, total?.builds ?? 0)
      seconds.inc((total?.milliseconds ?? 0) / 1000)
      count.inc(total?.builds ?? 0)
    }
  }
}

function messageMetrics(registry: Registry) {
  const gauge = gaugesIn(registry)
  const waiting = gauge('plinth_workflow_messages_waiting', 'Workflow starts and signals that Temporal has not accepted yet.')
  const age = gauge(
    'plinth_workflow_messages_oldest_seconds',
    'How long the oldest waiting workflow start or signal has waited; 0 when there is none.',
  )
  const dead = gauge(
    'plinth_workflow_messages_dead',
    'Workflow starts and signals that Temporal refuses for good; GET /operator/v1/workflow-messages lists them.',
  )
  const stuck = gauge(
    'plinth_stuck_activities',
    'Steps of workflows that have failed more than ten times and are tried again; GET /operator/v1/stuck-activities lists them.',
  )
  return ({ now, messages, stuckActivities }: Figures): void => {
    waiting.set(messages.waiting)
    age.set(secondsSince(messages.oldest, now))
    dead.set(messages.dead)
    stuck.set(stuckActivities)
  }
}

function storageMetrics(registry: Registry) {
  const gauge = gaugesIn(registry)
  const damagedObjects = gauge(
    'plinth_storage_damaged_objects',
    'Damaged objects of the storage, unreadable until they are sent again; GET /operator/v1/storage lists them.',
  )
  const verifiedBytes = gauge('plinth_storage_verified_bytes', 'Total size of all objects at their latest verification.')
  const unverifiedShare = gauge('plinth_storage_unverified_share', 'Share of the storage that was never verified, 0 to 1.')
  const verificationAge = gauge(
    'plinth_storage_oldest_verification_seconds',
    'Age of the oldest verification; about five days in normal operation.',
  )
  return ({ now, storage }: Figures): void => {
    damagedObjects.set(storage.damaged)
    verifiedBytes.set(storage.bytes)
    unverifiedShare.set(1 - storage.verified_prefixes / 256)
    verificationAge.set(secondsSince(storage.oldest, now))
  }
}

function statsMetrics(registry: Registry) {
  const dropped = gaugesIn(registry)(
    'plinth_stats_dropped_hits',
    'Requests that the statistics of sites lack, counted since the start of each edge that stored any within a month.',
  )
  return ({ droppedHits }: Figures): void => dropped.set(droppedHits)
}
