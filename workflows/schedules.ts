import {
  Connection,
  ScheduleAlreadyRunning,
  ScheduleClient,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
} from '@temporalio/client'
import type { Logger } from '../infra/log.ts'
import { pause } from '../infra/pause.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import { queues } from './contract/messages.ts'
import { typedSearchAttributes } from './contract/search-attributes.ts'
import { scheduled } from './registry.ts'

const retryMs = 5000
/** How often schedules are checked: a Temporal server that lost its database has lost them too. */
const lookMs = 60_000
/** Of creating or updating one. */
const deadlineMs = 5000

/** Each runs a workflow regularly, never twice at once. */
const schedules = scheduled.map(
  ({ type, schedule_id, workflow_id, every, jitter, catchupWindow, summary, input }): Omit<ScheduleOptions, 'memo'> => ({
    scheduleId: schedule_id,
    spec: { intervals: [{ every }], ...(jitter !== undefined && { jitter }) },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow },
    action: {
      type: 'startWorkflow',
      workflowType: type,
      workflowId: workflow_id,
      taskQueue: queues.control,
      args: input === undefined ? [] : [input],
      staticSummary: summary,
      typedSearchAttributes: typedSearchAttributes({ Trigger: 'schedule' }),
    },
  }),
)

/** Creates missing schedules; with `update`, also updates existing ones. An operator's pause stays. One that fails keeps no other from it. */
async function ensureSchedules(client: ScheduleClient, update: boolean): Promise<void> {
  const results = await Promise.allSettled(
    schedules.map((schedule) =>
      client.connection.withDeadline(Date.now() + deadlineMs, () => ensureSchedule(client, schedule, update)),
    ),
  )
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
}

async function ensureSchedule(
  client: ScheduleClient,
  { scheduleId, ...wanted }: (typeof schedules)[number],
  update: boolean,
): Promise<void> {
  try {
    await client.create({ scheduleId, ...wanted })
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error
    if (update) await client.getHandle(scheduleId).update(({ state }) => ({ ...wanted, state }))
  }
}

/** {@link ensureSchedules} as soon as Temporal answers, and then every minute. */
export function startSchedules({ address, namespace }: TemporalAddress, log: Logger): AsyncDisposable {
  const stopped = new AbortController()
  const connection = Connection.lazy({ address })
  const client = new ScheduleClient({ connection, namespace })
  async function run(): Promise<void> {
    let update = true
    let failed = false
    while (!stopped.signal.aborted) {
      try {
        await ensureSchedules(client, update)
        update = failed = false
      } catch (error) {
        if (!failed) log.warn({ err: error }, 'schedules wait for Temporal')
        failed = true
      }
      await pause(failed ? retryMs : lookMs, stopped.signal)
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
