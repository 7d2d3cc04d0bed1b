import { readdir, readFile, writeFile } from 'node:fs/promises'
import { Server } from 'node:net'
import { setPriority } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import type { Command } from '../../core/build-plan.ts'
import { sendSignal } from '../../infra/send-signal.ts'
import { inside, type SandboxView, sandboxArguments } from './bubblewrap.ts'
import type { Cgroup } from './cgroup.ts'

/** A command, or a line for the log between commands. */
export type Step = Command | string

export interface Confinement {
  /** Undefined runs without isolation, which the operator has allowed. */
  readonly bwrap: string | undefined
  /** The user to run as; undefined is the runner's own. */
  readonly uid: number | undefined
  readonly cgroup: Cgroup | undefined
  readonly view: SandboxView
}

export interface ConfinedCommands {
  readonly commands: readonly Step[]
  /** The folder of the source where they run, with a trailing slash; empty for the source itself. */
  readonly folder?: string | undefined
}

export interface ConfinedOptions {
  /** For when there is no cgroup; 0 is none. */
  readonly maxProcesses: number
  /** Stops everything at once. */
  readonly signal: AbortSignal
  readonly onOutput: (chunk: Buffer) => void
  /** Gets the socket that the commands' way out listens on, before the first of them starts. */
  readonly onEntrance: (entrance: Server) => void
  readonly onStart: (pid: number) => void
}

export interface Ended {
  /** False when the sandbox itself could not be set up, which is the platform's fault. */
  readonly started: boolean
  /** Undefined when it was stopped, or ended by a signal from outside. */
  readonly code: number | undefined
}

// The shell waits until it is in its cgroup; whatever it becomes afterwards starts inside. A closed stdin means that the
// runner is gone.
const gate = [
  'read -r go || exit 125',
  'exec 2>&1',
  'unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE',
  'ulimit -c 0',
  'ulimit -f 4194304',
  'ulimit -n 65536 2>/dev/null',
  'filter=$1',
  '[ -z "$2" ] || PATH=$2',
  'shift 2',
  // the rest of stdin has the arguments of bubblewrap
  'exec "$@" 6<"$filter" 7<&0 0</dev/null',
].join('\n')

// dash names this limit -p, where bash has -u. It is counted per user namespace, so of bubblewrap's inside
const processGate = 'ulimit -u "$1" 2>/dev/null || ulimit -p "$1"\nshift\nexec "$@"'

/** Where the relay finds the channel over which it gives its listening socket away. */
const channelFd = 5

/** What is written before the end has arrived long before. */
const outputGraceMs = 2000

/** Runs commands one after the other, until one fails, and leaves no process behind when it returns. */
export async function runConfined(
  confinement: Confinement,
  commands: ConfinedCommands,
  { maxProcesses, signal, onOutput, onEntrance, onStart }: ConfinedOptions,
): Promise<Ended> {
  signal.throwIfAborted()
  const { cgroup } = confinement
  const { child, pid, bubblewrapOptions } = await startGate(confinement, commands, maxProcesses)
  child.nodeChildProcess.once('message', (_message, entrance) => {
    child.nodeChildProcess.disconnect()
    if (entrance instanceof Server) onEntrance(entrance)
  })
  onStart(pid)
  child.stdout.on('data', onOutput)
  child.stderr.on('data', onOutput)
  const events = boundedText(child.stdio[3])
  let init: number | undefined
  child.stdio[4].once('data', (info: Buffer) => {
    init = Number(/"child-pid": (\d+)/.exec(info.toString())?.[1]) || undefined
  })

  let ending: Promise<unknown> = Promise.resolve()
  const stop = () => {
    ending = Promise.all([ending, endAll(pid, init, confinement)])
    // awaited at the end; until then a failure would count as unhandled
    ending.catch(() => undefined)
  }
  signal.addEventListener('abort', stop, { once: true })
  child.nodeChildProcess.once('exit', () => {
    stop()
    // a daemon that even this did not find would hold the output open
    setTimeout(() => {
      for (const stream of [child.stdout, child.stderr, child.stdio[3], child.stdio[4]]) stream.destroy()
    }, outputGraceMs).unref()
  })
  try {
    await stepBack(pid)
    await cgroup?.add(pid)
    child.stdin.on('error', () => undefined)
    child.stdin.end(`go\n${bubblewrapOptions.map((option) => `${option}\0`).join('')}`)
    if (signal.aborted) stop()
    await child
    return readEvents(await events)
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
    await ending
  }
}

/**
 * Starts the shell that waits for `go` on its stdin, followed by the options of bubblewrap, and then becomes the sandbox.
 * @throws Error when no process can be started
 */
async function startGate({ bwrap, uid, view }: Confinement, commands: ConfinedCommands, maxProcesses: number) {
  const at = bwrap
    ? { node: `${inside.toolchain}/bin/node`, relay: `${inside.support}/relay.mjs` }
    : { node: join(view.toolchainDir, 'bin', 'node'), relay: join(view.supportDir, 'scripts', 'relay.mjs') }
  const limited = maxProcesses === 0 ? [] : ['/bin/sh', '-c', processGate, 'sh', String(maxProcesses)]
  // a build can read the command line of its init: paths of the host stand neither in the arguments nor in the program's name
  const sandbox = bwrap ? [basename(bwrap), '--args', '7', '--'] : []
  const bubblewrapOptions = bwrap ? ['--info-fd', '4', '--seccomp', '6', ...(await sandboxArguments(view))] : []
  const path = bwrap ? dirname(bwrap) : ''
  const filter = bwrap ? join(view.supportDir, 'seccomp.bpf') : '/dev/null'
  const relay = ['/usr/bin/env', `NODE_CHANNEL_FD=${channelFd}`, at.node, at.relay, JSON.stringify(commands)]
  const child = execa('/bin/sh', ['-c', gate, 'sh', filter, path, ...sandbox, ...limited, ...relay], {
    // bubblewrap too gets a clean environment: what it had would be readable in /proc/1/environ inside
    extendEnv: false,
    env: bwrap ? {} : view.env,
    cwd: bwrap ? '/' : view.source,
    ...(uid === undefined ? {} : { uid, gid: uid }),
    // a process group of its own, to be ended as a whole
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    // the channel comes after these. It is closed before anything hostile runs: what it says is parsed
    ipc: true,
    serialization: 'json',
    buffer: false,
    reject: false,
  })
  const { pid } = child
  if (pid === undefined) {
    const { shortMessage } = (await child) as { shortMessage?: string }
    throw new Error(`no process can be started: ${shortMessage ?? ''}`)
  }
  // a subprocess is a promise, which a return would wait for
  return { child, pid, bubblewrapOptions }
}

/** Ends every process of a build and waits until they are gone. */
async function endAll(pid: number, init: number | undefined, { bwrap, cgroup, view }: Confinement): Promise<void> {
  sendSignal(-pid, 'SIGKILL')
  await cgroup?.kill()
  if (init !== undefined) await namespaceEnded(init)
  else if (!bwrap && !cgroup) await killByHome(view.home)
}

/**
 * Puts a process behind the platform's own: it is the first to be ended when the machine runs out of memory, and yields where no
 * cgroup weighs it. Its children inherit both, and cannot undo what a privileged runner has set.
 */
async function stepBack(pid: number): Promise<void> {
  try {
    setPriority(pid, 10)
    await writeFile(`/proc/${pid}/oom_score_adj`, '1000')
  } catch {
    // it has ended already, or there is no such file on this system
  }
}

/**
 * The init of a namespace ends after all of its processes. As a zombie it waits for process 1, which may take its time.
 * @throws Error when it does not end: what it left could still write into what is kept for other builds
 */
async function namespaceEnded(init: number): Promise<void> {
  for (let polls = 0; polls < 1000; polls++) {
    const stat = await readFile(`/proc/${init}/stat`, 'utf8').catch(() => '')
    if (stat === '' || /\) [ZX] /.test(stat)) return
    await pause(5)
  }
  throw new Error('the processes of a build did not end within 5 s of being killed')
}

/** Without a namespace and a cgroup, daemons are known by the home folder in their environment, which no other build has. */
async function killByHome(home: string): Promise<void> {
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '')
    if (environment.split('\0').includes(`HOME=${home}`)) sendSignal(Number(name), 'SIGKILL')
  }
}

/** Reports of the relay; a build could write there too, but would only mislead itself. */
function readEvents(lines: string): Ended {
  const codes = [...lines.matchAll(/"code":(\d{1,3})/g)]
  const code = codes.at(-1)?.[1]
  return { started: lines.includes('"started":true'), code: code === undefined ? undefined : Number(code) }
}

async function boundedText(stream: Readable): Promise<string> {
  let read = ''
  stream.setEncoding('utf8')
  try {
    for await (const chunk of stream) if (read.length < 4096) read += chunk
  } catch {
    // destroyed, because a daemon held it open
  }
  return read
}
