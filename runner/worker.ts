import { setTimeout as pause } from 'node:timers/promises'
import { NativeConnection, Worker } from '@temporalio/worker'
import { queues } from '../workflows/contract.ts'
import { createBuildActivities } from './activities.ts'
import type { BuildDeps } from './build.ts'

export interface TemporalAddress {
  readonly address: string
  readonly namespace: string
}

const connectRetryMs = 1000

/**
 * Works on the build queue, as soon as Temporal answers. Disposing takes no new builds, gives the running ones
 * `shutdownGraceMs`, then cancels them: the queue hands them out again.
 */
export function startBuildWorker(temporal: TemporalAddress, deps: BuildDeps, shutdownGraceMs: number): AsyncDisposable {
  const { log, config } = deps
  const stopped = new AbortController()
  const running = run()
  // a worker that fails is an unhandled rejection: the process ends, and its supervisor starts it again
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await running
    },
  }

  async function run(): Promise<void> {
    const connection = await connect()
    if (!connection) return
    try {
      const worker = await Worker.create({
        connection,
        namespace: temporal.namespace,
        taskQueue: queues.build,
        activities: { ...createBuildActivities(deps) },
        maxConcurrentActivityTaskExecutions: config.build.slots,
        shutdownGraceTime: shutdownGraceMs,
      })
      const shutDown = () => {
        if (worker.getState() === 'RUNNING') worker.shutdown()
      }
      stopped.signal.addEventListener('abort', shutDown, { once: true })
      log.info({ queue: queues.build, slots: config.build.slots }, 'runner started')
      const ended = worker.run()
      if (stopped.signal.aborted) shutDown()
      await ended
    } finally {
      await connection.close()
    }
  }

  /** Undefined when disposed before Temporal has answered. */
  async function connect(): Promise<NativeConnection | undefined> {
    for (let failures = 0; !stopped.signal.aborted; failures++) {
      try {
        return await NativeConnection.connect({ address: temporal.address })
      } catch (error) {
        if (failures === 0) log.warn({ err: error, address: temporal.address }, 'Temporal does not answer, trying on')
        await pause(connectRetryMs, undefined, { signal: stopped.signal }).catch(() => undefined)
      }
    }
    return undefined
  }
}
