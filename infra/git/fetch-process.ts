import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, lstat, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { getCompileCacheDir } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RefusedName } from '../net/fetch-error.ts'
import type { FetchedSource, RepositoryRequest } from './fetch-repository.ts'
import { GitError, type GitFailure } from './git-error.ts'
import { defaultGitLimits, type GitLimits } from './limits.ts'

export interface FetchRequest extends Omit<RepositoryRequest, 'limits' | 'workDir' | 'ca'> {
  /** A PEM file of authorities that are trusted besides those of this machine. */
  readonly caFile?: string | undefined
  readonly limits?: Partial<GitLimits> | undefined
  /** An abort ends the fetch, which rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The child's message over its channel. */
export type Outcome =
  | { readonly fetched: FetchedSource }
  | {
      readonly refused: { readonly reason: GitFailure; readonly message: string; readonly refusedName?: RefusedName | undefined }
    }
  | { readonly broken: string }

/** A process that reads one untrusted repository, as a user and in a folder of its own. Disposing ends it and removes the folder. */
export interface FetchProcess extends AsyncDisposable {
  /**
   * Fetches a repository; to be called once. The archive is absent after a failure.
   * @throws GitError with a message for the owner of the repository
   */
  fetch(request: FetchRequest): Promise<FetchedSource>
  isAlive(): boolean
}

const heapMb = 256
const MiB = 1024 * 1024
/** The largest file that the process may write: a badly compressed archive, or the unpacked objects. */
const maxFileBytes = 1024 * MiB
const archiveName = 'source.tar.gz'

/**
 * @param parent the parent of its folder
 * @param uid the user that the process becomes before it reads anything; undefined keeps the current user
 */
export async function startFetchProcess(parent: string, uid: number | undefined): Promise<FetchProcess> {
  await mkdir(parent, { recursive: true, mode: 0o700 })
  const workDir = resolve(await mkdtemp(join(parent, 'fetch-')))
  if (uid !== undefined) await chown(workDir, uid, uid)
  const child = start(workDir, uid)
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  // a failure is reported to the caller that waits for it
  exited.catch(() => undefined)
  return {
    isAlive: () => child.exitCode === null && child.signalCode === null && child.connected,
    async fetch({ limits, signal, archive, caFile, ...asked }) {
      signal?.throwIfAborted()
      const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8')
      // relative to its folder, because that user may not traverse the folders above
      const places = { archive: archiveName, workDir: '.' }
      const request = { ...asked, ...places, ca, limits: { ...defaultGitLimits, ...limits } }
      const fetched = await ask(child, exited, request, signal)
      const made = join(workDir, archiveName)
      const stats = await lstat(made)
      if (!stats.isFile() || stats.nlink !== 1)
        throw new Error('the process that fetches repositories left no archive of its own')
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
    // a child that cannot receive it has exited, which is a better error
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
  if ('refused' in outcome) {
    const { reason, message, refusedName } = outcome.refused
    throw new GitError(reason, message, refusedName)
  }
  if ('broken' in outcome) throw new Error(`the process that fetches repositories failed: ${outcome.broken}`)
  return outcome.fetched
}

const tookTooLong = (timeoutMs: number) =>
  new GitError('timeout', `fetching the repository took longer than ${timeoutMs / 1000} s; it is tried again later`)

/** Limits all writable memory, including buffers, which are outside of the heap, even when the process no longer checks itself. */
const maxDataBytes = 1536 * MiB
/** In KiB and in blocks of 512 bytes. A system without one of these limits starts the process without it. */
const limited = `ulimit -c 0; ulimit -d ${maxDataBytes / 1024} 2>/dev/null; ulimit -f ${maxFileBytes / 512} 2>/dev/null; exec "$0" "$@"`

const program = fileURLToPath(new URL('./fetch-child.ts', import.meta.url))
/** Its program and what that imports, from the sources or from a bundle. */
const readable = ['core', 'infra', 'node_modules', 'package.json', 'chunks'].map((name) => join(dirname(program), '../..', name))

/**
 * Where this process keeps compiled code, without the folder of its version of Node. A process that becomes another user cannot write there
 * any more before it reads anything of a stranger; one that stays this user could change what others run, so it has none.
 */
function compileCacheDir(): string | undefined {
  const ofVersion = getCompileCacheDir()
  return ofVersion === undefined ? undefined : dirname(ofVersion)
}

/**
 * The process may read its own program and its folder, write only the folder, and start nothing; it inherits nothing. Authorities and the token
 * go over the channel, so that no process list shows them.
 */
function start(workDir: string, uid: number | undefined): ChildProcess {
  const compiledDir = uid === undefined ? undefined : compileCacheDir()
  const writable = compiledDir === undefined ? [workDir] : [workDir, compiledDir]
  const reads = [...readable, ...writable].map((path) => `--allow-fs-read=${path}`)
  const rights = ['--permission', ...reads, ...writable.map((path) => `--allow-fs-write=${path}`)]
  const flags = [`--max-old-space-size=${heapMb}`, '--disable-warning=ExperimentalWarning', ...rights]
  return spawn('/bin/sh', ['-c', limited, process.execPath, ...flags, program, ...(uid === undefined ? [] : [String(uid)])], {
    cwd: workDir,
    env: compiledDir === undefined ? {} : { NODE_COMPILE_CACHE: compiledDir },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
  })
}
