import { type FetchProcess, type FetchRequest, startFetchProcess } from './fetch-process.ts'
import type { FetchedSource } from './fetch-repository.ts'
import { createFetchUsers } from './fetch-user.ts'

export interface SourceFetcher extends AsyncDisposable {
  /**
   * Fetches one commit of a repository in a process of its own and writes its files into an archive, which is absent after a failure and
   * has to lie in the file system of the fetcher's folder.
   * @throws GitError with a message for the owner of the repository
   */
  fetch(request: FetchRequest): Promise<FetchedSource>
}

export interface SourceFetcherOptions {
  /** How long a process waits for the next repository before it ends; 0 starts none ahead. */
  readonly spareMs?: number
}

const defaultSpareMs = 600_000
/** The pause before starting the next process, which takes half a second of processor time that the build after a fetch needs more. */
const pauseMs = 1500

/**
 * Starts the process for the next fetch some time after each fetch: a push seldom comes alone, and starting takes longer than fetching a small
 * repository. Each process reads only one repository.
 * @param dir the parent of the folders of the processes
 */
export function openSourceFetcher(dir: string, { spareMs = defaultSpareMs }: SourceFetcherOptions = {}): SourceFetcher {
  const nextUser = createFetchUsers(dir)
  let spare: Promise<FetchProcess> | undefined
  let timer: NodeJS.Timeout | undefined
  let disposed = false

  function later(ms: number, action: () => void): void {
    clearTimeout(timer)
    timer = setTimeout(action, ms).unref()
  }

  async function dropSpare(): Promise<void> {
    const dropped = spare
    spare = undefined
    const process = await dropped?.catch(() => undefined)
    await process?.[Symbol.asyncDispose]()
  }

  function prepare(): void {
    if (spare || disposed || spareMs === 0) return
    spare = startFetchProcess(dir, nextUser())
    spare.catch(() => undefined)
    later(spareMs, () => void dropSpare())
  }

  async function take(): Promise<FetchProcess> {
    clearTimeout(timer)
    const taken = spare
    spare = undefined
    const process = await taken?.catch(() => undefined)
    if (process?.isAlive()) return process
    await process?.[Symbol.asyncDispose]()
    return await startFetchProcess(dir, nextUser())
  }

  return {
    async fetch(request) {
      request.signal?.throwIfAborted()
      try {
        await using process = await take()
        return await process.fetch(request)
      } finally {
        later(pauseMs, prepare)
      }
    },
    async [Symbol.asyncDispose]() {
      disposed = true
      clearTimeout(timer)
      await dropSpare()
    },
  }
}
