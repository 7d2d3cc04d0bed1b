import {
  Client,
  Connection,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionStatusName,
  WorkflowNotFoundError,
} from '@temporalio/client'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { pause } from '../infra/pause.ts'
import { deleteWorkflowMessages, lockWorkflowMessages } from '../services/workflow-messages.ts'
import { queues, type WorkflowSignal, type WorkflowStart } from './contract/messages.ts'
import { typedSearchAttributes } from './contract/search-attributes.ts'

/** A start that takes longer is abandoned and retried: without a deadline, an absent server blocks for 20 s. */
const startDeadlineMs = 2000
const tickMs = 1000
const batchSize = 50

export interface Relay extends AsyncDisposable {
  /** To be called after a commit that wrote a start or a signal; returns at once. */
  wake(): void
}

export interface WorkflowClient extends AsyncDisposable {
  /** Starts a workflow. Repeating it is harmless, because the id names one occurrence. */
  start(start: WorkflowStart): Promise<void>
  /** Signals a workflow. It is not an error when the workflow has ended or is gone. */
  signal(signal: WorkflowSignal): Promise<void>
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
    async signal({ workflow_id, signal, start }) {
      try {
        await bounded(async () => {
          if (start) await client.workflow.signalWithStart(start.type, { ...startOptions(start), ...startAfterAnyEnd, signal })
          else await client.workflow.getHandle(workflow_id).signal(signal)
        })
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error
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
  // a workflow that failed or was terminated may start again, because its row still needs it
  workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' as const,
  workflowIdConflictPolicy: 'USE_EXISTING' as const,
  staticSummary: start.summary,
  typedSearchAttributes: typedSearchAttributes(start.attributes),
})

/** A workflow that a signal starts may run many times, so it starts however it ended before. */
const startAfterAnyEnd = { workflowIdReusePolicy: 'ALLOW_DUPLICATE' } as const

/** Sends the starts and signals in `workflow_starts`, when woken and once a second. Any number of relays may run at once. */
export function startRelay(db: Db, client: WorkflowClient, log: Logger): Relay {
  const stopped = new AbortController()
  let woken = Promise.withResolvers<void>()
  let reachable = true

  const send = (message: WorkflowStart | WorkflowSignal) => ('signal' in message ? client.signal(message) : client.start(message))

  async function relayBatch(): Promise<number> {
    return await db.transaction().execute(async (tx) => {
      const rows = await lockWorkflowMessages(tx, batchSize)
      const results = await Promise.allSettled(rows.map(({ message }) => send(message as WorkflowStart | WorkflowSignal)))
      const sent = rows.filter((_row, index) => results[index]?.status === 'fulfilled').map((row) => row.id)
      await deleteWorkflowMessages(tx, sent)
      const failure = results.find((result) => result.status === 'rejected')
      if (reachable !== !failure) {
        reachable = !failure
        if (failure) log.warn({ err: failure.reason, waiting: rows.length }, 'workflows wait for Temporal')
        else if (rows.length > 0) log.info({ sent: sent.length }, 'workflows started again')
      }
      return sent.length
    })
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        if ((await relayBatch()) === batchSize) continue
      } catch (error) {
        log.warn({ err: error }, 'workflow relay paused')
      }
      await Promise.race([woken.promise, pause(tickMs, stopped.signal)])
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
