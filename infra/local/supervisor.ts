import { setTimeout as delay } from 'node:timers/promises'
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
}

const pausesMs = [250, 500, 1000, 2000, 5000, 10_000, 30_000]
/** After which a process counts as well again, and the next crash is followed by a short pause. */
const steadyAfterMs = 60_000

/**
 * Starts something and keeps it running: when it ends by itself it is started again, after growing pauses, and that is said.
 * Disposing stops it for good.
 * @throws what `start` throws the first time
 */
export async function supervise(name: string, start: () => Promise<Running>, options: SupervisorOptions): Promise<AsyncDisposable> {
  const { records, report } = options
  const stop = new AbortController()
  let current: Running | undefined = await startRecorded()
  const keeping = keep()

  async function startRecorded(): Promise<Running> {
    const running = await start()
    await records.add(name, running.pid)
    return running
  }

  async function keep(): Promise<void> {
    let crashes = 0
    while (!stop.signal.aborted) {
      const startedAt = performance.now()
      const how = current ? await current.exited : undefined
      if (stop.signal.aborted) return
      if (performance.now() - startedAt > steadyAfterMs) crashes = 0
      const pauseMs = pausesMs[Math.min(crashes, pausesMs.length - 1)] as number
      crashes += 1
      if (how !== undefined) report(`${name} ended (${how}); starting it again in ${pauseMs / 1000} s. Its log: ${options.logDir}/${name}.log`)
      await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => undefined)
      if (stop.signal.aborted) return
      try {
        current = await startRecorded()
        report(`${name} runs again`)
      } catch (error) {
        current = undefined
        if (!stop.signal.aborted) report(`${name} did not start: ${(error as Error).message}`)
      }
    }
  }

  return {
    async [Symbol.asyncDispose]() {
      stop.abort()
      await current?.[Symbol.asyncDispose]()
      await keeping
      // one that was being started when the stop came
      await current?.[Symbol.asyncDispose]()
      await records.remove(name)
    },
  }
}
