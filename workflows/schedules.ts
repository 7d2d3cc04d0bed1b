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

/** Makes the schedules what they should be. An operator's pause stays. */
async function ensureSchedules(client: ScheduleClient): Promise<void> {
  for (const schedule of schedules) await ensureSchedule(client, schedule)
}

async function ensureSchedule(client: ScheduleClient, { scheduleId, ...wanted }: Schedule): Promise<void> {
  try {
    await client.create({ scheduleId, ...wanted })
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error
    await client.getHandle(scheduleId).update(({ state }) => ({ ...wanted, state }))
  }
}

/** {@link ensureSchedules} as soon as Temporal answers. */
export function startSchedules({ address, namespace }: TemporalAddress, log: Logger): AsyncDisposable {
  const stopped = new AbortController()
  const connection = Connection.lazy({ address })
  const client = new ScheduleClient({ connection, namespace })
  async function run(): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted; failures++) {
      try {
        return await connection.withDeadline(Date.now() + deadlineMs, () => ensureSchedules(client))
      } catch (error) {
        if (failures === 0) log.warn({ err: error }, 'schedules wait for Temporal')
        await pause(retryMs, undefined, { signal: stopped.signal }).catch(() => undefined)
      }
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
