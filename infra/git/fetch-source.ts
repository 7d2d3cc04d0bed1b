import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { FetchedSource, RepositoryRequest } from './fetch-repository.ts'
import { GitError, type GitFailure } from './git-error.ts'
import { defaultGitLimits, type GitLimits } from './limits.ts'

export interface FetchSourceOptions extends Omit<RepositoryRequest, 'limits'> {
  /** Created, and removed at the end with everything in it. */
  readonly workDir: string
  readonly limits?: Partial<GitLimits>
  /** Its abort ends the fetching; the promise rejects with its reason. */
  readonly signal?: AbortSignal | undefined
}

/** What the child says over its channel. */
export type Outcome =
  | { readonly fetched: FetchedSource }
  | { readonly refused: { readonly reason: GitFailure; readonly message: string } }
  | { readonly broken: string }

const heapMb = 256

/**
 * Fetches one commit of a repository in a process of its own and writes its files into an archive, which is absent after a failure.
 * @throws GitError with a message for the owner of the repository
 */
export async function fetchSource({ limits, signal, ...asked }: FetchSourceOptions): Promise<FetchedSource> {
  const request: RepositoryRequest = {
    ...asked,
    archive: resolve(asked.archive),
    workDir: resolve(asked.workDir),
    limits: { ...defaultGitLimits, ...limits },
  }
  signal?.throwIfAborted()
  await mkdir(request.workDir, { recursive: true, mode: 0o700 })
  let isFetched = false
  try {
    const fetched = await runChild(request, signal)
    isFetched = true
    return fetched
  } finally {
    await rm(request.workDir, { recursive: true, force: true })
    if (!isFetched) await rm(request.archive, { force: true })
  }
}

async function runChild(request: RepositoryRequest, signal: AbortSignal | undefined): Promise<FetchedSource> {
  const child = start(request)
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const deadline = AbortSignal.timeout(request.limits.timeoutMs)
  const kill = () => void child.kill('SIGKILL')
  const ending = signal ? AbortSignal.any([signal, deadline]) : deadline
  ending.addEventListener('abort', kill, { once: true })
  try {
    let outcome: Outcome | undefined
    child.once('message', (message: Outcome) => {
      outcome = message
    })
    // a child that cannot take it has exited, which says more
    child.send(request, () => undefined)
    const [code, killedBy] = await exited
    signal?.throwIfAborted()
    if (outcome) return read(outcome)
    if (deadline.aborted) throw tookTooLong(request.limits.timeoutMs)
    // V8 aborts at its limit
    if (killedBy === 'SIGABRT' || code === 134)
      throw new GitError('too_large', 'the repository is too large: reading it takes too much memory')
    throw new Error(`the process that fetches repositories ended with ${killedBy ?? `exit code ${code}`}`)
  } finally {
    ending.removeEventListener('abort', kill)
    kill()
  }
}

function read(outcome: Outcome): FetchedSource {
  if ('refused' in outcome) throw new GitError(outcome.refused.reason, outcome.refused.message)
  if ('broken' in outcome) throw new Error(`the process that fetches repositories failed: ${outcome.broken}`)
  return outcome.fetched
}

const tookTooLong = (timeoutMs: number) =>
  new GitError('timeout', `fetching the repository took longer than ${timeoutMs / 1000} s; it is tried again later`)

/** It may write nowhere else, start nothing, and inherits nothing; the token goes over the channel, where no process list shows it. */
function start({ workDir, archive }: RepositoryRequest): ChildProcess {
  const rights = ['--permission', '--allow-fs-read=*', `--allow-fs-write=${workDir}`, `--allow-fs-write=${archive}`]
  const flags = [`--max-old-space-size=${heapMb}`, '--disable-warning=ExperimentalWarning', ...rights]
  return spawn(process.execPath, [...flags, join(import.meta.dirname, 'fetch-child.ts')], {
    cwd: workDir,
    env: {},
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
  })
}
