import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { execa } from 'execa'
import type { Command } from '../core/build-plan.ts'
import { inside, type SandboxView, sandboxArguments } from './bubblewrap.ts'
import type { Cgroup } from './cgroup.ts'

export interface Confinement {
  /** Undefined runs without isolation, which the operator has allowed. */
  readonly bwrap: string | undefined
  /** The user to run as; undefined is the runner's own. */
  readonly uid: number | undefined
  readonly cgroup: Cgroup | undefined
  readonly view: SandboxView
}

export interface ConfinedOptions {
  /** A limit per user, for when there is no cgroup; 0 is none. */
  readonly maxProcesses: number
  /** Stops everything at once. */
  readonly signal: AbortSignal
  readonly onOutput: (chunk: Buffer) => void
  readonly onStart: (pid: number) => void
}

export interface Ended {
  /** False when the sandbox itself could not be set up, which is the platform's fault. */
  readonly started: boolean
  /** Undefined when it was stopped, or ended by a signal from outside. */
  readonly code: number | undefined
}

// The shell waits until it is in its cgroup; whatever it becomes afterwards starts inside. A closed stdin means that the
// runner is gone. dash names the process limit -p, where bash has -u.
const gate = [
  'read -r go || exit 125',
  'exec 2>&1',
  'ulimit -c 0',
  'ulimit -f 4194304',
  'ulimit -n 65536 2>/dev/null',
  '[ "$1" = 0 ] || ulimit -u "$1" 2>/dev/null || ulimit -p "$1"',
  'shift',
  'exec "$@"',
].join('\n')

/**
 * Runs commands one after the other, until one fails, and leaves no process behind when it returns.
 */
export async function runConfined(
  { bwrap, uid, cgroup, view }: Confinement,
  commands: readonly Command[],
  options: ConfinedOptions,
): Promise<Ended> {
  options.signal.throwIfAborted()
  const request = JSON.stringify({ socket: bwrap ? inside.socket : view.socket, commands })
  const program = bwrap
    ? [bwrap, ...(await sandboxArguments(view)), '--', `${inside.toolchain}/bin/node`, `${inside.support}/relay.mjs`, request]
    : [join(view.toolchainDir, 'bin', 'node'), join(view.supportDir, 'scripts', 'relay.mjs'), request]
  const child = execa('/bin/sh', ['-c', gate, 'sh', String(options.maxProcesses), ...program], {
    // bubblewrap too gets a clean environment: what it had would be readable in /proc/1/environ inside
    extendEnv: false,
    env: bwrap ? {} : view.env,
    cwd: bwrap ? '/' : view.source,
    ...(uid === undefined ? {} : { uid, gid: uid }),
    // a process group of its own, to be ended as a whole
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    buffer: false,
    reject: false,
  })
  const { pid } = child
  if (pid === undefined) {
    const { shortMessage } = (await child) as { shortMessage?: string }
    throw new Error(`no process can be started: ${shortMessage ?? ''}`)
  }
  options.onStart(pid)
  let ending: Promise<unknown> = Promise.resolve()
  const stop = () => {
    ending = Promise.all([ending, endAll()])
    // awaited at the end; until then a failure would count as unhandled
    ending.catch(() => undefined)
  }
  options.signal.addEventListener('abort', stop, { once: true })
  // a daemon without a namespace would hold the output open
  child.nodeChildProcess.once('exit', stop)
  child.stdout.on('data', options.onOutput)
  child.stderr.on('data', options.onOutput)
  const events = boundedText(child.stdio[3])
  try {
    await cgroup?.add(pid)
    child.stdin.on('error', () => undefined)
    child.stdin.end('go\n')
    if (options.signal.aborted) stop()
    await child
    return readEvents(await events)
  } finally {
    options.signal.removeEventListener('abort', stop)
    stop()
    await ending
  }

  async function endAll(): Promise<void> {
    killGroup(pid as number)
    await cgroup?.kill()
    // without a namespace and a cgroup only the user is left to find daemons by
    if (!bwrap && !cgroup && uid !== undefined) {
      await execa('/bin/sh', ['-c', 'kill -9 -1'], { uid, gid: uid, env: {}, extendEnv: false, reject: false })
    }
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // it has ended already
  }
}

/** What the relay reports; a build could write there too, and would only fool itself. */
function readEvents(lines: string): Ended {
  const codes = [...lines.matchAll(/"code":(\d{1,3})/g)]
  const code = codes.at(-1)?.[1]
  return { started: lines.includes('"started":true'), code: code === undefined ? undefined : Number(code) }
}

async function boundedText(stream: Readable): Promise<string> {
  let read = ''
  stream.setEncoding('utf8')
  for await (const chunk of stream) if (read.length < 4096) read += chunk
  return read
}
