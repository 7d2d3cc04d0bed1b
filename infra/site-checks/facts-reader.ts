import { join } from 'node:path'
import { type LimitedThread, startLimitedThread, ThreadEnded } from '../limited-thread.ts'
import type { BlobFacts } from './blob-facts.ts'
import type { FactsCalls, FileToRead } from './facts-thread.ts'

export interface FactsReader extends AsyncDisposable {
  /**
   * Answers no facts for a file that takes the thread too long or too much memory.
   * @throws Error when reading it fails, when the thread cannot be started, or when the reader is closed
   */
  read(file: FileToRead): Promise<BlobFacts>
}

/** The largest piece of a file that is read, 1 MB, takes 30 ms. */
const usualDeadlineMs = 5000
const memoryMb = 128
/** So that the thread does not wait for this process between two files. */
const maxPosted = 4

/**
 * Reads files of tenants in a thread of its own, so that no file holds the event loop of this process or uses up its memory. The thread
 * is ended when a file takes more than `deadlineMs` of processor time, and another one is started for the files behind it. Files are read in
 * the order of their arrival: a check never has more than a few files here, so checks take turns. It is ready when it is returned, because
 * the checks of an answer have only 150 ms, which starting the thread alone may take.
 */
export async function openFactsReader(deadlineMs = usualDeadlineMs): Promise<FactsReader> {
  const start = () => startLimitedThread<FactsCalls>(join(import.meta.dirname, 'facts-thread.ts'), { deadlineMs, memoryMb })
  /** Readers that wait until the thread has room. */
  const waiting: (() => void)[] = []
  let posted = 0
  let isClosed = false
  let thread = await start()
  let next: Promise<LimitedThread<FactsCalls>> | undefined

  /** The thread, or another one in the place of one that has ended. */
  async function living(): Promise<LimitedThread<FactsCalls>> {
    if (isClosed) throw closed()
    if (!thread.ended.aborted) return thread
    next ??= start().finally(() => {
      next = undefined
    })
    const started = await next
    if (isClosed) await started[Symbol.asyncDispose]()
    thread = started
    return started
  }

  async function readPosted(file: FileToRead): Promise<BlobFacts> {
    for (;;) {
      try {
        const current = await living()
        return JSON.parse(await current.call('readFacts', file)) as BlobFacts
      } catch (error) {
        if (isClosed) throw closed()
        if (!(error instanceof ThreadEnded)) throw error
        if (error.isToBlame && error.reason !== 'error') return {}
        if (error.isToBlame) throw error.cause
      }
    }
  }

  return {
    async read(file) {
      if (isClosed) throw closed()
      if (posted >= maxPosted) await new Promise<void>((resolve) => waiting.push(resolve))
      else posted += 1
      try {
        return await readPosted(file)
      } finally {
        const first = waiting.shift()
        if (first) first()
        else posted -= 1
      }
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await next?.catch(() => undefined)
      await thread[Symbol.asyncDispose]()
    },
  }
}

const closed = () => new Error('the reader of files is closed')
