import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { BlobFacts } from './blob-facts.ts'

/** A message to the thread, which answers every one with its `BlobFacts`, in the same order. They come as JSON, which costs a fifth less than a copy. */
export interface FileToRead {
  readonly bytes: Uint8Array
  /** Whether to read it as HTML. */
  readonly page: boolean
}

export interface FactsReader extends AsyncDisposable {
  /**
   * Answers no facts for a file that takes the thread too long or too much memory.
   * @throws Error when reading it fails, when the thread cannot be started, or when the reader is closed
   */
  read(file: FileToRead): Promise<BlobFacts>
}

interface Job {
  readonly file: FileToRead
  readonly answer: PromiseWithResolvers<BlobFacts>
}

/** The largest piece of a file that is read, 1 MB, takes 30 ms. */
const usualDeadlineMs = 5000
/** So that the thread does not wait for this process between two files. */
const maxPosted = 4

/**
 * Reads files of tenants in a thread of its own, so that no file holds the event loop of this process or uses up its memory. The thread
 * is ended when a file takes longer than `deadlineMs`, and another one is started for the files behind it. Files are read in the order
 * of their arrival: a check never has more than a few files here, so checks take turns. It is ready when it is returned, because the
 * checks of an answer have only 150 ms, which starting the thread alone may take.
 */
export async function openFactsReader(deadlineMs = usualDeadlineMs): Promise<FactsReader> {
  const waiting: Job[] = []
  /** What the thread was given and has not answered. */
  const posted: Job[] = []
  let thread: Worker | undefined
  let starting: Promise<void> | undefined
  let deadline: NodeJS.Timeout | undefined
  let late: Job | undefined
  let failure: NodeJS.ErrnoException | undefined
  let isClosed = false

  function start(): Promise<void> {
    starting ??= startThread()
      .then(adopt)
      .finally(() => {
        starting = undefined
      })
    return starting
  }

  async function adopt(started: Worker): Promise<void> {
    if (isClosed) {
      await started.terminate()
      return
    }
    thread = started
    started.on('message', (facts: string) => {
      posted.shift()?.answer.resolve(JSON.parse(facts) as BlobFacts)
      watch()
      post()
    })
    started.on('error', (error: Error) => {
      failure = error
    })
    started.once('exit', replace)
    post()
  }

  function post(): void {
    if (!thread) return
    for (const job of waiting.splice(0, maxPosted - posted.length)) {
      posted.push(job)
      thread.postMessage(job.file)
      if (posted.length === 1) watch()
    }
  }

  /** Gives the file that the thread is at now its time. */
  function watch(): void {
    clearTimeout(deadline)
    const current = posted[0]
    if (!current) return
    deadline = setTimeout(() => {
      late = current
      void thread?.terminate()
    }, deadlineMs)
  }

  /** The answers that were given before the exit have all arrived. */
  function replace(): void {
    clearTimeout(deadline)
    thread = undefined
    // a file whose answer crossed with its deadline was not late, and the one behind it is not to blame
    const blamed = isClosed || (late && late !== posted[0]) ? undefined : posted.shift()
    if (failure && failure.code !== 'ERR_WORKER_OUT_OF_MEMORY') blamed?.answer.reject(failure)
    else blamed?.answer.resolve({})
    late = undefined
    failure = undefined
    waiting.unshift(...posted.splice(0))
    if (!isClosed) start().catch(rejectAll)
  }

  function rejectAll(error: Error): void {
    for (const { answer } of waiting.splice(0)) answer.reject(error)
  }

  await start()
  return {
    async read(file) {
      if (isClosed) throw closed()
      const job = { file, answer: Promise.withResolvers<BlobFacts>() }
      waiting.push(job)
      if (thread) post()
      else start().catch(rejectAll)
      return await job.answer.promise
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await starting?.catch(() => undefined)
      await thread?.terminate()
      rejectAll(closed())
    },
  }
}

const closed = () => new Error('the reader of files is closed')

async function startThread(): Promise<Worker> {
  const thread = new Worker(join(import.meta.dirname, 'facts-thread.ts'), {
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
  })
  // the exit follows
  thread.on('error', () => undefined)
  await once(thread, 'message')
  // the timer of its deadline keeps the process going while it reads
  thread.unref()
  return thread
}
