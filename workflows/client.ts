import {
  Client,
  Connection,
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionStatusName,
  WorkflowNotFoundError,
} from '@temporalio/client'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { pause } from '../infra/pause.ts'
import {
  deleteWorkflowMessages,
  type LockedMessage,
  lockWorkflowMessages,
  postponeMessages,
} from '../services/workflow-messages.ts'
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

export interface WorkflowState {
  readonly status: WorkflowExecutionStatusName
  readonly closedAt: Date | undefined
}

export interface WorkflowClient extends AsyncDisposable {
  /** Starts a workflow. Repeating it is harmless, because the id names one occurrence. */
  start(start: WorkflowStart): Promise<void>
  /** Signals a workflow. It is not an error when the workflow has ended or is gone. */
  signal(signal: WorkflowSignal): Promise<void>
  /** Undefined when Temporal does not know the workflow. */
  describe(workflowId: string): Promise<WorkflowState | undefined>
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
    async describe(workflowId) {
      try {
        const { status, closeTime } = await bounded(() => client.workflow.getHandle(workflowId).describe())
        return { status: status.name, closedAt: closeTime }
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

/** Codes of gRPC with which Temporal refuses a message for what it says: invalid argument, out of range. */
const refusals = new Set([3, 11])

/** Whether Temporal, or its client, refuses the message itself. All else says that Temporal is away, overloaded or not set up. */
function isRefusal(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error
  if (!isGrpcServiceError(cause)) return cause instanceof TypeError || (cause instanceof Error && cause.name === 'ValueError')
  // a message above the limit of gRPC itself is "exhausted"
  return refusals.has(cause.code) || /larger than max/.test(cause.details)
}

/** Whether another call would fail as well. */
export const isTemporalAway = (error: unknown): boolean => error instanceof ServiceError && !isRefusal(error)

const maxErrorLength = 300

/** Why a message was not accepted, as the server says it. */
function reasonOf(error: unknown): string {
  const cause = error instanceof ServiceError ? (error.cause ?? error) : error
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, maxErrorLength)
}

/** Sends the starts and signals in `workflow_starts`, when woken and once a second. Any number of relays may run at once. */
export function startRelay(db: Db, client: WorkflowClient, log: Logger): Relay {
  const stopped = new AbortController()
  let woken = Promise.withResolvers<void>()
  let reachable = true

  async function send({ id, workflow_id, message, attempts }: LockedMessage) {
    const sent = message as WorkflowStart | WorkflowSignal
    try {
      await ('signal' in sent ? client.signal(sent) : client.start(sent))
      return { id, workflow_id }
    } catch (err) {
      const refused = isRefusal(err)
      if (refused && attempts === 0) log.warn({ err, workflow_id }, 'workflow message refused')
      return { id, workflow_id, failure: { id, attempts, refused, error: reasonOf(err) }, err }
    }
  }

  /** Returns whether more messages may be due. */
  async function relayBatch(): Promise<boolean> {
    return await db.transaction().execute(async (tx) => {
      const results = await Promise.all((await lockWorkflowMessages(tx, batchSize)).map(send))
      const sent = results.filter((result) => !result.failure)
      await deleteWorkflowMessages(
        tx,
        sent.map(({ id }) => id),
      )
      const dead = await postponeMessages(
        tx,
        results.flatMap(({ failure }) => failure ?? []),
      )
      for (const { id, workflow_id, failure } of results) {
        if (dead.includes(id)) log.error({ workflow_id, error: failure?.error }, 'workflow message refused for good')
      }
      const away = results.find(({ failure }) => failure && !failure.refused)
      if (results.length > 0 && reachable === Boolean(away)) {
        reachable = !away
        if (away) log.warn({ err: away.err, waiting: results.length }, 'workflows wait for Temporal')
        else log.info({ sent: sent.length }, 'workflows started again')
      }
      return results.length === batchSize && !away
    })
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        if (await relayBatch()) continue
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
