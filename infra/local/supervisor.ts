import { pause } from '../pause.ts'
import type { OnSpawn } from './child.ts'
import type { ProcessRecords } from './records.ts'

/** Something that runs until it is disposed, or ends by itself. */
export interface Running extends AsyncDisposable {
  readonly pid: number
  /** Resolves with how it ended. */
  readonly exited: Promise<string>
}

export interface SupervisorOptions {
  readonly records: ProcessRecords
  readonly report: (line: string) => void
  readonly logDir: string
  /** Aborted when the whole start has failed or is not wanted any more. */
  readonly signal: AbortSignal
  /** Whether requests may have been answered by now: then a first start that fails is tried again. */
  readonly isServing: () => boolean
}

/** Starts it once; aborting the signal stops it, also while it is starting. */
export type Start = (signal: AbortSignal, onSpawn: OnSpawn) => Promise<Running>

/** Long enough for a store that was killed in between to be there again. */
const firstPausesMs = [1000, 2000, 4000]
const pausesMs = [250, 500, 1000, 2000, 5000, 10_000, 30_000]
/** After which a process counts as well again, and the next crash is followed by a short pause. */
const steadyAfterMs = 60_000

/**
 * Starts something and keeps it running: when it ends by itself it is started again, after growing pauses, and that is said.
 * Disposing stops it for good.
 * @throws what `start` throws the first time, or the fourth time when requests may have been answered
 */
export async function supervise(name: string, start: Start, options: SupervisorOptions): Promise<AsyncDisposable> {
  const { records, report } = options
  const stop = new AbortController()
  const stopped = AbortSignal.any([options.signal, stop.signal])
  let current: Running | undefined = await startFirst()
  const keeping = keep()

  async function startRecorded(): Promise<Running> {
    try {
      return await start(stopped, (pid) => records.add(name, pid))
    } catch (error) {
      // what failed to start, or was stopped meanwhile, has been ended
      await records.remove(name)
      throw error
    }
  }

  async function startFirst(): Promise<Running> {
    for (const pauseMs of firstPausesMs) {
      try {
        return await startRecorded()
      } catch (error) {
        if (stopped.aborted || !options.isServing()) throw error
        report(`${name} did not start: ${(error as Error).message.trim()}; trying again in ${pauseMs / 1000} s`)
      }
      await pause(pauseMs, stopped)
      stopped.throwIfAborted()
    }
    return await startRecorded()
  }

  async function keep(): Promise<void> {
    let crashes = 0
    let restarts = 0
    while (!stopped.aborted) {
      const startedAt = performance.now()
      const how = current ? await current.exited : undefined
      if (stopped.aborted) return
      if (performance.now() - startedAt > steadyAfterMs) crashes = 0
      const pauseMs = pausesMs[Math.min(crashes, pausesMs.length - 1)] as number
      crashes += 1
      if (how !== undefined) {
        restarts += 1
        report(
          `${name} ended (${how}); starting it again in ${pauseMs / 1000} s (restart ${restarts}). Its log: ${options.logDir}/${name}.log`,
        )
      }
      await pause(pauseMs, stopped)
      if (stopped.aborted) return
      try {
        current = await startRecorded()
        report(`${name} runs again`)
      } catch (error) {
        current = undefined
        if (!stopped.aborted) report(`${name} did not start: ${(error as Error).message}`)
      }
    }
  }

  return {
    async [Symbol.asyncDispose]() {
      stop.abort()
      await current?.[Symbol.asyncDispose]()
      await keeping
      // one whose start ended after the stop
      await current?.[Symbol.asyncDispose]()
      await records.remove(name)
    },
  }
}
