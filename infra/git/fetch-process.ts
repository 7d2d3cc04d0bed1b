import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { FetchedSource, RepositoryRequest } from './fetch-repository.ts'
import { GitError, type GitFailure } from './git-error.ts'
import { defaultGitLimits, type GitLimits } from './limits.ts'

export interface FetchRequest extends Omit<RepositoryRequest, 'limits' | 'workDir'> {
  readonly limits?: Partial<GitLimits> | undefined
  /** Its abort ends the fetching; the promise rejects with its reason. */
  readonly signal?: AbortSignal | undefined
}

/** What the child says over its channel. */
export type Outcome =
  | { readonly fetched: FetchedSource }
  | { readonly refused: { readonly reason: GitFailure; readonly message: string } }
  | { readonly broken: string }

/** A process that reads one repository of a stranger, in a folder of its own. Disposing ends it and removes the folder. */
export interface FetchProcess extends AsyncDisposable {
  /**
   * Once. The archive is absent after a failure.
   * @throws GitError with a message for the owner of the repository
   */
  fetch(request: FetchRequest): Promise<FetchedSource>
  isAlive(): boolean
}

const heapMb = 256

/** @param parent where the folder is made */
export async function startFetchProcess(parent: string): Promise<FetchProcess> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  const workDir = resolve(await mkdtemp(join(parent, 'fetch-')))
  const child = start(workDir)
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  // it is looked at when somebody waits for it
  exited.catch(() => undefined)
  return {
    isAlive: () => child.exitCode === null && child.signalCode === null && child.connected,
    async fetch({ limits, signal, archive, ...asked }) {
      signal?.throwIfAborted()
      const made = join(workDir, 'source.tar.gz')
      const request = { ...asked, archive: made, workDir, limits: { ...defaultGitLimits, ...limits } }
      const fetched = await ask(child, exited, request, signal)
      await rename(made, archive)
      return fetched
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited.catch(() => undefined)
      await rm(workDir, { recursive: true, force: true })
    },
  }
}

async function ask(
  child: ChildProcess,
  exited: Promise<[number | null, NodeJS.Signals | null]>,
  request: RepositoryRequest,
  signal: AbortSignal | undefined,
): Promise<FetchedSource> {
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
function start(workDir: string): ChildProcess {
  const rights = ['--permission', '--allow-fs-read=*', `--allow-fs-write=${workDir}`]
  const flags = [`--max-old-space-size=${heapMb}`, '--disable-warning=ExperimentalWarning', ...rights]
  return spawn(process.execPath, [...flags, join(import.meta.dirname, 'fetch-child.ts')], {
    cwd: workDir,
    env: {},
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
  })
}
