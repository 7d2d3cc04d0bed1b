import { FairQueue } from '../../infra/fair-queue.ts'
import { type LimitedThread, startLimitedThread, ThreadEnded } from '../../infra/threads/limited-thread.ts'
import type { BlobFacts, FactsCalls, FileToRead } from './facts-thread.ts'

export interface FactsReader extends AsyncDisposable {
  /** Resolves when the first thread has started, which takes about 0.1 s, for callers that have little time for reading. */
  started(): Promise<void>
  /**
   * The facts of the files, in their order; none for a file that takes the thread too long or too much memory.
   * @param payer the project of the files
   * @throws Error when reading them fails, when the thread cannot be started, or when the reader is closed
   */
  read(files: readonly FileToRead[], payer: string): Promise<BlobFacts[]>
}

/** The largest piece of a file that is read, 1 MB, takes 30 ms. */
const usualDeadlineMs = 5000
const memoryMb = 128
/** Two calls, so that the thread does not wait for this process between them. */
const maxPosted = 2

/**
 * Reads files of tenants in a thread of its own, so that no file blocks the event loop of this process or uses up its memory. When the files
 * of one call take more than `deadlineMs` of processor time, the thread is ended and another one is started for the remaining files. Projects
 * share the thread fairly, regardless of their number of checks. It takes 15 MiB, so it is started when it is needed for the first time.
 */
export function openFactsReader(deadlineMs = usualDeadlineMs): FactsReader {
  const start = () => startLimitedThread<FactsCalls>(new URL('./facts-thread.ts', import.meta.url), { deadlineMs, memoryMb })
  // needs no limit: a check waits for its files before it reads others, so the number of checks bounds the queue
  const queue = new FairQueue({ slots: maxPosted })
  let isClosed = false
  let thread: LimitedThread<FactsCalls> | undefined
  let next: Promise<LimitedThread<FactsCalls>> | undefined

  /** The thread, or a new one when it has ended. */
  async function living(): Promise<LimitedThread<FactsCalls>> {
    if (isClosed) throw closed()
    if (thread && !thread.ended.aborted) return thread
    next ??= start().finally(() => {
      next = undefined
    })
    const started = await next
    if (isClosed) await started[Symbol.asyncDispose]()
    thread = started
    return started
  }

  /** Undefined when the thread was ended at one of the files. */
  async function readPosted(files: readonly FileToRead[]): Promise<BlobFacts[] | undefined> {
    for (;;) {
      try {
        const current = await living()
        return JSON.parse(await current.call('readFacts', files)) as BlobFacts[]
      } catch (error) {
        if (isClosed) throw closed()
        if (!(error instanceof ThreadEnded)) throw error
        if (error.isToBlame && error.reason !== 'error') return undefined
        if (error.isToBlame) throw error.cause
      }
    }
  }

  async function read(files: readonly FileToRead[], payer: string): Promise<BlobFacts[]> {
    if (isClosed) throw closed()
    const facts = await queue.run(payer, () => readPosted(files))
    if (facts) return facts
    if (files.length === 1) return [{}]
    const alone: BlobFacts[] = []
    for (const file of files) alone.push(...(await read([file], payer)))
    return alone
  }

  return {
    async started() {
      if (!thread) await living()
    },
    read,
    async [Symbol.asyncDispose]() {
      isClosed = true
      await next?.catch(() => undefined)
      await thread?.[Symbol.asyncDispose]()
    },
  }
}

const closed = () => new Error('the reader of files is closed')
