import { setTimeout as pause } from 'node:timers/promises'
import {
  Connection,
  ScheduleAlreadyRunning,
  ScheduleClient,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
} from '@temporalio/client'
import { defineSearchAttributeKey } from '@temporalio/common'
import type { Logger } from '../infra/log.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import { certificateRenewal } from './contract/certificates.ts'
import { domainRecheck } from './contract/domains.ts'
import { queues, storageSweep } from './contract.ts'

const retryMs = 5000
/** A Temporal server that has lost its database has lost the schedules too. */
const lookMs = 60_000
const deadlineMs = 5000

type Schedule = Omit<ScheduleOptions, 'memo'>

const triggeredBySchedule = [{ key: defineSearchAttributeKey('Trigger', 'KEYWORD'), value: 'schedule' }]

const sweepStorage: Schedule = {
  scheduleId: storageSweep.schedule_id,
  spec: { intervals: [{ every: '1h' }], jitter: '10m' },
  policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '5m' },
  action: {
    type: 'startWorkflow',
    workflowType: 'sweepStorage',
    workflowId: storageSweep.workflow_id,
    taskQueue: queues.control,
    args: [{}],
    staticSummary: '**Storage** gives up unused blobs and objects',
    typedSearchAttributes: triggeredBySchedule,
  },
}

const recheckDomains: Schedule = {
  scheduleId: domainRecheck.schedule_id,
  spec: { intervals: [{ every: '1h' }], jitter: '10m' },
  policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '5m' },
  action: {
    type: 'startWorkflow',
    workflowType: 'recheckDomains',
    workflowId: domainRecheck.workflow_id,
    taskQueue: queues.control,
    staticSummary: '**Domains** are looked up again',
    typedSearchAttributes: triggeredBySchedule,
  },
}

const renewCertificates: Schedule = {
  scheduleId: certificateRenewal.schedule_id,
  spec: { intervals: [{ every: '5m' }] },
  policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
  action: {
    type: 'startWorkflow',
    workflowType: 'renewCertificates',
    workflowId: certificateRenewal.workflow_id,
    taskQueue: queues.control,
    staticSummary: '**Certificates** that are due are ordered again',
    typedSearchAttributes: triggeredBySchedule,
  },
}

const schedules = [sweepStorage, recheckDomains, renewCertificates]

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
