import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { AppError, type ErrorKind } from '../core/errors.ts'
import { threadCpuMs } from './thread-cpu.ts'

/** The functions that a thread serves, by name. What they are given and answer is copied. */
// biome-ignore lint/suspicious/noExplicitAny: each thread has functions of its own
export type Calls = Readonly<Record<string, (...args: any[]) => unknown>>

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

/** What the thread is given. */
export interface ThreadData {
  /** Its first element grows with every sign of life. */
  readonly beats: Int32Array
  readonly beatMs: number
}

export interface Call {
  readonly id: number
  readonly name: string
  readonly args: readonly unknown[]
}

interface CallError extends Pick<NodeJS.ErrnoException, 'name' | 'message'> {
  readonly stack: string | undefined
  readonly code: string | undefined
  readonly path: string | undefined
  readonly syscall: string | undefined
  readonly kind: ErrorKind | undefined
}

export type Answer = { readonly id: number; readonly value: unknown } | { readonly id: number; readonly error: CallError }

/** Between two signs of life, and between two looks for them. */
const maxGapMs = 250

/**
 * Starts a thread whose file calls `serveCalls`, for work on what strangers send: whatever it meets, the event loop of this process goes on.
 * V8 ends a thread inside a pattern too. The deadline counts processor time where the system can say it, so that a machine with too much to
 * do ends nothing. The thread is ready when it is returned, and does not keep the process running while it has nothing to do.
 */
export async function startLimitedThread<Served extends Calls>(
  file: string,
  limits: ThreadLimits,
): Promise<LimitedThread<Served>> {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const gapMs = Math.max(1, Math.min(maxGapMs, limits.deadlineMs / 4))
  const workerData: ThreadData = { beats, beatMs: gapMs }
  const resourceLimits = { maxOldGenerationSizeMb: limits.memoryMb, maxYoungGenerationSizeMb: 16 }
  // nothing of the environment, besides the compiled code: without it Node's compiler for TypeScript takes 12 MiB in each thread
  const compiled = getCompileCacheDir()
  const env = compiled === undefined ? {} : { NODE_COMPILE_CACHE: dirname(compiled) }
  const worker = new Worker(file, { workerData, execArgv: [], env, resourceLimits })
  /** In the order of the calls. */
  const pending = new Map<number, PromiseWithResolvers<unknown>>()
  const ended = new AbortController()
  let calls = 0
  /** The call that the thread was at when its time was over. */
  let late: number | undefined
  let failure: NodeJS.ErrnoException | undefined
  let isClosed = false
  let isWatched = false

  worker.on('error', (error: Error) => {
    failure = error
  })
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  const id = await Promise.race([once(worker, 'message'), exited]).then((message) => message?.[0] as number | undefined)
  if (failure) throw failure
  worker.on('message', settle)
  worker.unref()
  // the answers that were given before the exit have all arrived
  const over = exited.then(rejectAll)

  return {
    call(name, ...args) {
      if (ended.signal.aborted) return Promise.reject(new ThreadEnded(reasonOf(), false, failure))
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

  function settle(answer: Answer): void {
    const call = pending.get(answer.id)
    pending.delete(answer.id)
    if ('value' in answer) call?.resolve(answer.value)
    else call?.reject(errorOf(answer.error))
  }

  /** Looks after the thread while it has something to do. The timer keeps the process running for so long. */
  async function watch(): Promise<void> {
    isWatched = true
    let seen = -1
    let since = 0
    while (pending.size > 0 && !ended.signal.aborted) {
      const now = (id === undefined ? undefined : threadCpuMs(id)) ?? performance.now()
      const beat = Atomics.load(beats, 0)
      if (beat !== seen) {
        seen = beat
        since = now
      } else if (now - since >= limits.deadlineMs) {
        late = pending.keys().next().value
        await worker.terminate()
        break
      }
      await Promise.race([pause(gapMs), over])
    }
    isWatched = false
  }

  function reasonOf(): EndReason {
    if (isClosed) return 'closed'
    if (late !== undefined) return 'time'
    return failure?.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'error'
  }

  function rejectAll(): void {
    const reason = reasonOf()
    const first = pending.keys().next().value
    // a call whose answer crossed with the deadline was not late, and the one behind it is not to blame
    const blamed = reason === 'closed' || (reason === 'time' && late !== first) ? undefined : first
    for (const [call, answer] of pending) answer.reject(new ThreadEnded(reason, call === blamed, failure))
    pending.clear()
    ended.abort()
  }
}

function errorOf({ kind, name, message, stack, code, path, syscall }: CallError): Error {
  if (kind) return new AppError(kind, message)
  const facts = { name, ...(stack && { stack }), ...(code && { code }), ...(path && { path }), ...(syscall && { syscall }) }
  return Object.assign(new Error(message), facts)
}
