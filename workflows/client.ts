import { setTimeout as pause } from 'node:timers/promises'
import {
  Client,
  Connection,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionStatusName,
  WorkflowNotFoundError,
} from '@temporalio/client'
import { defineSearchAttributeKey } from '@temporalio/common'
import type { Db } from '../infra/db/database.ts'
import { deleteWorkflowStarts, lockWorkflowStarts } from '../infra/db/workflow-starts.ts'
import type { Logger } from '../infra/log.ts'
import { queues, type WorkflowStart } from './contract.ts'

/** A start that takes longer is given up and repeated: without a deadline an absent server blocks for 20 s. */
const startDeadlineMs = 2000
const tickMs = 1000
const batchSize = 50

export interface Relay extends AsyncDisposable {
  /** Call it after a commit that wrote a start; returns at once. */
  wake(): void
}

export interface WorkflowClient extends AsyncDisposable {
  /** Repeating a start is harmless: the id names one occurrence. */
  start(start: WorkflowStart): Promise<void>
  /** Undefined when Temporal does not know the workflow. */
  status(workflowId: string): Promise<WorkflowExecutionStatusName | undefined>
  /** Rejects when the server does not answer within the deadline. */
  ping(): Promise<void>
}

/** Connects with the first call, so a process starts while Temporal is away. */
export function openWorkflowClient(config: { address: string; namespace: string }): WorkflowClient {
  const connection = Connection.lazy({ address: config.address })
  const client = new Client({ connection, namespace: config.namespace })
  const bounded = <T>(call: () => Promise<T>) => connection.withDeadline(Date.now() + startDeadlineMs, call)
  return {
    async start(start) {
      try {
        await bounded(() => client.workflow.start(start.type, startOptions(start)))
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      }
    },
    async status(workflowId) {
      try {
        return (await bounded(() => client.workflow.getHandle(workflowId).describe())).status.name
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return undefined
        throw error
      }
    },
    async ping() {
      await bounded(() => connection.workflowService.getSystemInfo({}))
    },
    [Symbol.asyncDispose]: () => connection.close(),
  }
}

const startOptions = (start: WorkflowStart) => ({
  workflowId: start.workflow_id,
  taskQueue: queues.control,
  args: [start.input],
  workflowIdReusePolicy: 'REJECT_DUPLICATE' as const,
  workflowIdConflictPolicy: 'USE_EXISTING' as const,
  staticSummary: start.summary,
  typedSearchAttributes: Object.entries(start.attributes).map(([name, value]) => ({
    key: defineSearchAttributeKey(name, 'KEYWORD'),
    value,
  })),
})

/** Starts what `workflow_starts` holds, as soon as it is woken and once a second. Many may run at once. */
export function startRelay(db: Db, client: WorkflowClient, log: Logger): Relay {
  const stopped = new AbortController()
  let woken = Promise.withResolvers<void>()
  let reachable = true

  async function relayBatch(): Promise<number> {
    return await db.transaction().execute(async (tx) => {
      const starts = (await lockWorkflowStarts(tx, batchSize)) as WorkflowStart[]
      const results = await Promise.allSettled(starts.map((start) => client.start(start)))
      const started = starts.filter((_start, index) => results[index]?.status === 'fulfilled')
      if (started.length > 0) {
        await deleteWorkflowStarts(
          tx,
          started.map((start) => start.workflow_id),
        )
      }
      const failure = results.find((result) => result.status === 'rejected')
      if (reachable !== !failure) {
        reachable = !failure
        if (failure) log.warn({ err: failure.reason, waiting: starts.length }, 'workflows wait for Temporal')
        else if (starts.length > 0) log.info({ started: starts.length }, 'workflows started again')
      }
      return started.length
    })
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        if ((await relayBatch()) === batchSize) continue
      } catch (error) {
        log.warn({ err: error }, 'workflow relay paused')
      }
      await Promise.race([woken.promise, pause(tickMs, undefined, { signal: stopped.signal }).catch(() => undefined)])
      woken = Promise.withResolvers()
    }
  }

  const running = run()
  return {
    wake: () => woken.resolve(),
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await running
    },
  }
}
