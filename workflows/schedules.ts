import { setTimeout as pause } from 'node:timers/promises'
import {
  Connection,
  ScheduleAlreadyRunning,
  ScheduleClient,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
} from '@temporalio/client'
import type { Duration } from '@temporalio/common'
import type { Logger } from '../infra/log.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import { certificateRenewal } from './contract/certificates.ts'
import { domainRecheck } from './contract/domains.ts'
import { queues } from './contract/messages.ts'
import { typedSearchAttributes } from './contract/search-attributes.ts'
import { storageScrub, storageSweep } from './contract/storage.ts'

const retryMs = 5000
/** A Temporal server that has lost its database has lost the schedules too. */
const lookMs = 60_000
const deadlineMs = 5000

type Schedule = Omit<ScheduleOptions, 'memo'>

interface Regular {
  readonly ids: { readonly schedule_id: string; readonly workflow_id: string }
  /** The name of a workflow's function. */
  readonly type: string
  readonly every: Duration
  readonly jitter?: Duration
  /** A run that was missed is made up for when it is this late at most. */
  readonly catchupWindow: Duration
  readonly summary: string
  readonly args?: unknown[]
}

/** Runs a workflow again and again, never beside itself. */
const regularly = ({ ids, type, every, jitter, catchupWindow, summary, args = [] }: Regular): Schedule => ({
  scheduleId: ids.schedule_id,
  spec: { intervals: [{ every }], ...(jitter !== undefined && { jitter }) },
  policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow },
  action: {
    type: 'startWorkflow',
    workflowType: type,
    workflowId: ids.workflow_id,
    taskQueue: queues.control,
    args,
    staticSummary: summary,
    typedSearchAttributes: typedSearchAttributes({ Trigger: 'schedule' }),
  },
})

const schedules = [
  regularly({
    ids: storageSweep,
    type: 'sweepStorage',
    every: '1h',
    jitter: '10m',
    catchupWindow: '5m',
    summary: '**Storage** gives up unused blobs and objects',
    args: [{}],
  }),
  regularly({
    ids: storageScrub,
    type: 'scrubStorage',
    every: '1h',
    jitter: '10m',
    catchupWindow: '5m',
    summary: '**Storage** is read and compared with its hashes',
    args: [{}],
  }),
  regularly({
    ids: domainRecheck,
    type: 'recheckDomains',
    every: '1h',
    jitter: '10m',
    catchupWindow: '5m',
    summary: '**Domains** are looked up again',
  }),
  regularly({
    ids: certificateRenewal,
    type: 'renewCertificates',
    every: '5m',
    catchupWindow: '1m',
    summary: '**Certificates** that are due are ordered again',
  }),
]

/** Makes the schedules that are missing; with `update` also those what they should be that are there. An operator's pause stays. */
async function ensureSchedules(client: ScheduleClient, update: boolean): Promise<void> {
  for (const { scheduleId, ...wanted } of schedules) {
    try {
      await client.create({ scheduleId, ...wanted })
    } catch (error) {
      if (!(error instanceof ScheduleAlreadyRunning)) throw error
      if (update) await client.getHandle(scheduleId).update(({ state }) => ({ ...wanted, state }))
    }
  }
}

/** {@link ensureSchedules} as soon as Temporal answers, and again and again. */
export function startSchedules({ address, namespace }: TemporalAddress, log: Logger): AsyncDisposable {
  const stopped = new AbortController()
  const connection = Connection.lazy({ address })
  const client = new ScheduleClient({ connection, namespace })
  async function run(): Promise<void> {
    let update = true
    let failed = false
    while (!stopped.signal.aborted) {
      try {
        await connection.withDeadline(Date.now() + deadlineMs, () => ensureSchedules(client, update))
        update = failed = false
      } catch (error) {
        if (!failed) log.warn({ err: error }, 'schedules wait for Temporal')
        failed = true
      }
      await pause(failed ? retryMs : lookMs, undefined, { signal: stopped.signal }).catch(() => undefined)
    }
  }
  const running = run()
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await running
      await connection.close()
    },
  }
}
