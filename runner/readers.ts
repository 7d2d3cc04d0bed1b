import { type LimitedThread, startLimitedThread, ThreadEnded, type ThreadLimits } from '../infra/threads/limited-thread.ts'
import type { ReaderCalls } from './reader-thread.ts'

type Thread = LimitedThread<ReaderCalls>

/** Reads what one build has sent and written, in a thread, so that nothing in it holds up another build. */
export interface Reader extends AsyncDisposable {
  /** @throws ReadingStopped when that takes too long or too much memory; else as the functions do */
  readonly call: Thread['call']
  /** Aborted when nothing can be read any more, with the reason that calls are rejected with. */
  readonly stopped: AbortSignal
}

export interface Readers extends AsyncDisposable {
  /**
   * Brings a reader for one build. Disposing ends what it still does.
   * @param signal ends the reading of a source
   */
  take(signal: AbortSignal): Promise<Reader>
}

/** Reading has reached a limit, which is the fault of what was read. The message is for its author. */
export class ReadingStopped extends Error {
  /** Processor time that it has cost. */
  readonly spentMs: number

  constructor(what: string, reason: 'time' | 'memory', { deadlineMs, memoryMb }: ThreadLimits) {
    const most = reason === 'time' ? `${deadlineMs / 1000} seconds of processor time` : `${memoryMb} MB of memory`
    super(
      `reading ${what} took more than ${most}; look for files, names or lines that are unusually long or deeply nested, and leave them out`,
    )
    this.spentMs = deadlineMs
  }
}

const MiB = 1024 * 1024
/** Nothing that is usual comes near: the largest lock file that is read, of 32 MB, takes half a second. */
const usualLimits: ThreadLimits = { deadlineMs: 5000, memoryMb: 128 }
/** Threads that wait for a build, at about 12 MB each. */
const maxIdle = 4
/** The heap of a thread does not shrink while it waits, so one with more than this is ended instead. */
const maxIdleBytes = 48 * MiB

const output = 'the output of the build'
const published = 'the names of the files to publish'
/** The input of each call, for messages. */
const subjects: Readonly<Record<keyof ReaderCalls, string>> = {
  readSource: 'the source',
  nameInstall: 'the lock file and the settings of the package manager',
  findOutput: 'the names of what the build wrote',
  listFolder: published,
  skip: published,
  listSkipped: published,
  maskText: output,
  explainFailure: output,
  openLog: output,
  pushLog: output,
  showLog: output,
  closeLog: output,
  readRecentLog: output,
  forget: 'the source',
}

/**
 * Threads for builds: each build has one to itself. The first build waits for its thread, about 0.1 s; for those behind it one is ready before
 * it is needed.
 */
export function openReaders(limits: Partial<ThreadLimits> = {}): Readers {
  const all = { ...usualLimits, ...limits }
  const idle: Thread[] = []
  let warming: Promise<void> | undefined
  let isClosed = false

  return {
    async take(signal) {
      const thread = await next()
      if (idle.length === 0) warm()
      return readerOf(thread, signal)
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await warming
      await Promise.all(idle.splice(0).map((thread) => thread[Symbol.asyncDispose]()))
    },
  }

  function start(): Promise<Thread> {
    return startLimitedThread<ReaderCalls>(new URL('./reader-thread.ts', import.meta.url), all)
  }

  async function next(): Promise<Thread> {
    if (idle.length === 0) await warming
    return idle.pop() ?? (await start())
  }

  function warm(): void {
    warming ??= start()
      .then(putBack, () => undefined)
      .finally(() => {
        warming = undefined
      })
  }

  async function putBack(thread: Thread): Promise<void> {
    if (isClosed || idle.length >= maxIdle) await thread[Symbol.asyncDispose]()
    else idle.push(thread)
  }

  function readerOf(thread: Thread, signal: AbortSignal): Reader {
    const stopped = new AbortController()
    const end = () => void thread[Symbol.asyncDispose]()
    let isOver = false

    async function call(...[name, ...args]: Parameters<Thread['call']>): Promise<unknown> {
      // the thread may be another build's by now
      if (isOver) throw new Error('the reader is closed')
      if (name === 'readSource') signal.addEventListener('abort', end, { once: true })
      try {
        return await thread.call(name, ...args)
      } catch (error) {
        if (!(error instanceof ThreadEnded)) throw error
        stopped.abort(reasonOf(error, name))
        throw stopped.signal.reason
      } finally {
        signal.removeEventListener('abort', end)
      }
    }

    function reasonOf({ reason, cause }: ThreadEnded, name: keyof ReaderCalls): unknown {
      if (reason === 'time' || reason === 'memory') return new ReadingStopped(subjects[name], reason, all)
      return reason === 'error' ? cause : (signal.reason ?? new Error('the reader is closed'))
    }

    return {
      call: call as Thread['call'],
      stopped: stopped.signal,
      async [Symbol.asyncDispose]() {
        isOver = true
        const heldBytes = thread.isBusy ? undefined : await thread.call('forget').catch(() => undefined)
        if (heldBytes === undefined || heldBytes > maxIdleBytes) await thread[Symbol.asyncDispose]()
        else await putBack(thread)
      },
    }
  }
}
