import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker'
import type { Logger } from '../log.ts'
import { pause } from '../pause.ts'

export interface TemporalAddress {
  readonly address: string
  readonly namespace: string
}

const connectRetryMs = 1000

/**
 * Works on a task queue as soon as Temporal answers. Disposing stops taking work, gives running work `shutdownGraceTime`, then cancels it:
 * the queue delivers it again.
 */
export function startWorker(
  temporal: TemporalAddress,
  options: Omit<WorkerOptions, 'connection' | 'namespace'>,
  log: Logger,
): AsyncDisposable {
  const stopped = new AbortController()
  // a worker that fails is an unhandled rejection: the process ends, and its supervisor starts it again
  const running = run()
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await running
    },
  }

  async function run(): Promise<void> {
    const created = await create()
    if (!created) return
    const { worker, connection } = created
    const shutDown = () => {
      if (worker.getState() === 'RUNNING') worker.shutdown()
    }
    stopped.signal.addEventListener('abort', shutDown, { once: true })
    try {
      const ended = worker.run()
      log.info({ queue: options.taskQueue }, 'worker started')
      if (stopped.signal.aborted) shutDown()
      await ended
    } finally {
      await connection.close()
    }
  }

  /** Undefined when disposed before Temporal has answered. */
  async function create(): Promise<{ worker: Worker; connection: NativeConnection } | undefined> {
    for (let failures = 0; !stopped.signal.aborted; failures++) {
      let connection: NativeConnection | undefined
      try {
        connection = await NativeConnection.connect({ address: temporal.address })
        return { connection, worker: await Worker.create({ connection, namespace: temporal.namespace, ...options }) }
      } catch (error) {
        await connection?.close()
        if (failures === 0) log.warn({ err: error, address: temporal.address }, 'worker waits for Temporal')
        await pause(connectRetryMs, stopped.signal)
      }
    }
    return undefined
  }
}
