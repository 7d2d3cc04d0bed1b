import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type Answer, type Call, type Calls, type ThreadData, unpackError } from './calls.ts'
import { watchStandstill } from './standstill.ts'
import { threadCpuMs } from './thread-cpu.ts'

export interface ThreadLimits {
  /** Processor time without an answer or a turn of the thread's event loop, after which it is ended. */
  readonly deadlineMs: number
  /** Of the thread's heap. Buffers do not count. */
  readonly memoryMb: number
}

export interface LimitedThread<Served extends Calls> extends AsyncDisposable {
  /**
   * Calls are begun in the order in which they are made.
   * @throws ThreadEnded when the thread is ended before it has answered, or what the function has thrown: of an error that is no
   * `AppError` only the message, the stack and what system calls say of theirs
   */
  readonly call: <Name extends keyof Served>(
    name: Name,
    ...args: Parameters<Served[Name]>
  ) => Promise<Awaited<ReturnType<Served[Name]>>>
  /** Aborted when the thread has ended. */
  readonly ended: AbortSignal
  /** Whether it owes an answer. */
  readonly isBusy: boolean
}

/** Why a thread has ended: at a limit, closed by its owner, or by an error outside of a call, which is the `cause`. */
export type EndReason = 'time' | 'memory' | 'closed' | 'error'

/** A call was not answered. */
export class ThreadEnded extends Error {
  readonly reason: EndReason
  /** Whether the thread was at this call when it reached a limit. */
  readonly isToBlame: boolean

  constructor(reason: EndReason, isToBlame: boolean, cause: unknown) {
    super(`a thread has ended: ${reason}`, { cause })
    this.reason = reason
    this.isToBlame = isToBlame
  }
}

/** Between two signs of life, and between two looks for them. */
const maxGapMs = 250

/**
 * Starts a thread whose file calls `serveCalls`, for work on what strangers send: whatever it meets, the event loop of this process goes on.
 * V8 ends a thread inside a pattern too. The deadline counts processor time where the system can say it, so that a machine with too much to
 * do ends nothing. The thread is ready when it is returned, and does not keep the process running while it has nothing to do.
 */
export async function startLimitedThread<Served extends Calls>(file: URL, limits: ThreadLimits): Promise<LimitedThread<Served>> {
  const gapMs = Math.max(1, Math.min(maxGapMs, limits.deadlineMs / 4))
  const { worker, beats, cpuMs, exited } = await launch(file, limits, gapMs)
  /** In the order of the calls. */
  const pending = new Map<number, PromiseWithResolvers<unknown>>()
  const ended = new AbortController()
  let calls = 0
  /** The call that the thread was at when its time was over. */
  let late: number | undefined
  let isClosed = false
  let isWatched = false

  worker.on('message', (answer: Answer) => {
    const call = pending.get(answer.id)
    pending.delete(answer.id)
    if ('value' in answer) call?.resolve(answer.value)
    else call?.reject(unpackError(answer.error))
  })
  // the answers that were given before the exit have all arrived
  const over = exited.then(rejectAll)

  return {
    call(name, ...args) {
      if (ended.signal.aborted) return Promise.reject(ended.signal.reason)
      const answer = Promise.withResolvers<unknown>()
      calls += 1
      worker.postMessage({ id: calls, name: String(name), args } satisfies Call)
      pending.set(calls, answer)
      if (!isWatched) void watch()
      return answer.promise as Promise<Awaited<ReturnType<Served[typeof name]>>>
    },
    ended: ended.signal,
    get isBusy() {
      return pending.size > 0
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await worker.terminate()
      await over
    },
  }

  /** Looks after the thread while it has something to do. The timer keeps the process running for so long. */
  async function watch(): Promise<void> {
    isWatched = true
    const stillMs = watchStandstill(beats, cpuMs)
    while (pending.size > 0 && !ended.signal.aborted) {
      if (stillMs() >= limits.deadlineMs) {
        late = pending.keys().next().value
        await worker.terminate()
        break
      }
      await Promise.race([pause(gapMs), over])
    }
    isWatched = false
  }

  function rejectAll(failure: NodeJS.ErrnoException | undefined): void {
    const reason = isClosed ? 'closed' : late !== undefined ? 'time' : isOutOfMemory(failure) ? 'memory' : 'error'
    const first = pending.keys().next().value
    // a call whose answer crossed with the deadline was not late, and the one behind it is not to blame
    const blamed = reason === 'closed' || (reason === 'time' && late !== first) ? undefined : first
    for (const [call, answer] of pending) answer.reject(new ThreadEnded(reason, call === blamed, failure))
    pending.clear()
    ended.abort(new ThreadEnded(reason, false, failure))
  }
}

/**
 * Starts the thread and waits until it serves calls.
 * @param beatMs between two signs of life
 * @throws what the thread throws before
 */
async function launch(file: URL, { memoryMb }: ThreadLimits, beatMs: number) {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ThreadData = { beats, beatMs }
  const resourceLimits = { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: 16 }
  // nothing of the environment, besides the compiled code: without it Node's compiler for TypeScript takes 12 MiB in each thread
  const compiled = getCompileCacheDir()
  const env = compiled === undefined ? {} : { NODE_COMPILE_CACHE: dirname(compiled) }
  const worker = new Worker(file, { workerData, execArgv: [], env, resourceLimits })
  let failure: NodeJS.ErrnoException | undefined
  worker.on('error', (error: Error) => {
    failure = error
  })
  /** Resolves with what has ended the thread, unless it was ended from here. */
  const exited = new Promise<NodeJS.ErrnoException | undefined>((resolve) => worker.once('exit', () => resolve(failure)))
  const first = await Promise.race([once(worker, 'message'), exited.then(() => undefined)])
  if (failure) throw failure
  worker.unref()
  const systemId = first?.[0] as number | undefined
  const cpuMs = () => (systemId === undefined ? undefined : threadCpuMs(systemId)) ?? performance.now()
  return { worker, beats, cpuMs, exited }
}

const isOutOfMemory = (failure: NodeJS.ErrnoException | undefined) => failure?.code === 'ERR_WORKER_OUT_OF_MEMORY'
