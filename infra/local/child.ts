import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { close, open } from 'node:fs'
import { copyFile, mkdir, readdir, readFile, stat, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { execa } from 'execa'
import { sendSignal } from '../send-signal.ts'

const MiB = 1024 * 1024
const maxLogBytes = 16 * MiB

export interface ChildOptions {
  readonly command: readonly [string, ...string[]]
  /** The whole environment of the child; nothing is inherited. */
  readonly env: Readonly<Record<string, string>>
  /** Gets everything that the child prints; without it the output is dropped. */
  readonly logFile?: string | undefined
  readonly cwd?: string
  /** The system user to run as, when this process is root. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** What ends the child in good order. */
  readonly stopSignal: 'SIGTERM' | 'SIGINT'
  /** After which a child that does not end is killed. */
  readonly stopTimeoutMs: number
  /** Ends the child when it is aborted, so that whoever waits for it stops waiting. */
  readonly signal?: AbortSignal | undefined
  /** Awaited as soon as the process exists, long before it is ready. */
  readonly onSpawn?: OnSpawn | undefined
  /** Gives the child a channel, over which one of our processes says that it is ready. */
  readonly channel?: boolean
}

/** Called with the pid of a new process. */
export type OnSpawn = (pid: number) => Promise<void>

/** A running process. Disposing ends it and waits until it has gone. */
export interface Child extends AsyncDisposable {
  readonly pid: number
  /** Resolves with how it ended, such as `exit code 1` or `SIGKILL`. */
  readonly exited: Promise<string>
  /** Whether it has said over its channel that it is ready. */
  readonly isReady: () => boolean
}

/**
 * Starts a process in a group of its own, so that Ctrl-C in the terminal reaches the launcher only and the order of stopping is ours.
 * Where there is a parent-death signal the child gets its stop signal when this process is killed.
 * @throws Error when the program cannot be started
 */
export async function startChild(options: ChildOptions): Promise<Child> {
  options.signal?.throwIfAborted()
  const [program, ...args] = [...(await parentDeathPrefix(options.stopSignal)), ...options.command] as [string, ...string[]]
  const output = options.logFile === undefined ? 'ignore' : await openLog(options.logFile)
  let child: ChildProcess
  try {
    child = spawn(program, args, {
      env: options.env,
      cwd: options.cwd,
      ...options.user,
      detached: true,
      stdio: ['ignore', output, output, ...(options.channel ? ['ipc' as const] : [])],
    })
    await once(child, 'spawn')
  } finally {
    if (typeof output === 'number') await promisify(close)(output)
  }
  const pid = child.pid as number
  let ready = false
  child.once('message', () => {
    ready = true
  })
  const exited = once(child, 'exit').then(([code, signal]) => (signal as string | null) ?? `exit code ${String(code)}`)
  let stopping: Promise<void> | undefined
  // once only: a second signal would end a child that is draining
  const stop = () => (stopping ??= end())
  async function end(): Promise<void> {
    child.kill(options.stopSignal)
    const killing = setTimeout(() => sendSignal(-pid, 'SIGKILL'), options.stopTimeoutMs)
    await exited
    clearTimeout(killing)
    // what the child started and did not wait for
    sendSignal(-pid, 'SIGKILL')
  }
  const abort = () => void stop()
  options.signal?.addEventListener('abort', abort)
  void exited.then(() => options.signal?.removeEventListener('abort', abort))
  await options.onSpawn?.(pid)
  return { pid, exited, isReady: () => ready, [Symbol.asyncDispose]: stop }
}

/** The last lines of a log file, for a message about why its writer ended; empty when there are none. */
export async function lastLines(file: string | undefined, count = 8): Promise<string> {
  if (file === undefined) return ''
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.trimEnd().split('\n').slice(-count).join('\n')
}

async function openLog(file: string): Promise<number> {
  await mkdir(dirname(file), { recursive: true })
  return promisify(open)(file, 'a', 0o600)
}

/** Keeps the logs of a folder small while their writers go on: one above 16 MiB is copied to `<file>.1` and begins anew. */
export async function trimLogs(dir: string): Promise<void> {
  for (const name of (await readdir(dir)).filter((name) => name.endsWith('.log'))) {
    const file = join(dir, name)
    if ((await stat(file)).size <= maxLogBytes) continue
    await copyFile(file, `${file}.1`)
    await truncate(file)
  }
}

let setprivWorks: Promise<boolean> | undefined

/** `setpriv` of util-linux asks the kernel to signal the child when its parent dies; the one of BusyBox cannot. */
async function parentDeathPrefix(signal: NodeJS.Signals): Promise<string[]> {
  setprivWorks ??= execa('setpriv', ['--pdeathsig', 'TERM', 'true']).then(
    () => true,
    () => false,
  )
  return (await setprivWorks) ? ['/usr/bin/env', 'setpriv', '--pdeathsig', signal.slice(3), '--'] : []
}
