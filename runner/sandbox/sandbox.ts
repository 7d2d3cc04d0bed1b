import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import type { PackageManager } from '../../core/build-plan.ts'
import type { Config } from '../../infra/config.ts'
import type { Logger } from '../../infra/log.ts'
import { managerEnvironment } from '../install/manager-environment.ts'
import { inside } from './bubblewrap.ts'
import { type CgroupLimits, type Cgroups, findCgroups, type MemoryUse } from './cgroup.ts'
import { type Ended, runConfined, type Step } from './confine.ts'
import { openEgress, publicEgress } from './egress.ts'
import { testIsolation } from './self-test.ts'
import type { Slot } from './slots.ts'
import { writeSupportFiles } from './support-files.ts'
import { isDiskFull, measureTree, type TreeLimits, watchMemory, watchThrashing, watchTree } from './watch.ts'
import { packagesFolder, removeLeftoverWorkspaces, type Workspace } from './workspace.ts'

/**
 * What the self-test found. `A`: isolated, each slot with a user of its own; `A'`: isolated, as the runner's user;
 * `B`: not isolated, only the user differs; `none`: not isolated.
 */
export interface SandboxStatus {
  readonly level: 'A' | "A'" | 'B' | 'none'
  /** What enforces memory and process limits; `none` leaves them to a watchdog that looks twice a second. */
  readonly cgroup: Cgroups['kind']
  /** Whether builds are run. */
  readonly builds: boolean
  /** What the operator should know, in full sentences. */
  readonly problems: readonly string[]
}

interface Manager {
  readonly name: PackageManager
  readonly folder: string
}

/** What a build runs with: folders with programs in `bin`. */
export interface BuildTools {
  readonly node: string
  /** Beside npm, which belongs to Node. */
  readonly packageManager?: Manager | undefined
  /** Whether the home folder holds the packages of an earlier build. */
  readonly hasPackages?: boolean
}

/** Why the runner has stopped a build. */
export type StopCause = 'time' | 'disk' | 'output' | 'memory' | 'thrashing'

export interface RunRequest {
  readonly workspace: Workspace
  readonly slot: Slot
  readonly commands: readonly Step[]
  /** Of the source, where the commands run, with a slash at its end; the source itself when it is empty. */
  readonly folder?: string
  /** Node 20 when it is left out. */
  readonly tools?: BuildTools
  readonly timeoutMs: number
  /** Stops the run; it then rejects with the signal's reason. */
  readonly signal: AbortSignal
  readonly onOutput: (chunk: Buffer) => void
  /** A line of the runner itself, such as a refused connection. */
  readonly onNotice: (line: string) => void
}

export interface RunOutcome extends Ended {
  readonly stopped: StopCause | undefined
}

export interface Sandbox extends AsyncDisposable {
  /** As the last test found it. */
  readonly status: SandboxStatus
  /** What the commands of a build with this package manager find in their environment. */
  environment(manager: PackageManager): Record<string, string>
  /**
   * Resolves when a test of the isolation has come to a result; at once but after a start on a machine that was too busy for it.
   * @throws Error when that takes longer than two minutes, or what the signal says
   */
  tested(signal: AbortSignal): Promise<void>
  run(request: RunRequest): Promise<RunOutcome>
}

/** One run of commands in a sandbox, without a clock and a watch on the disk. */
export type RunConfined = (
  /** Undefined runs without isolation. */
  bwrap: string | undefined,
  request: Pick<RunRequest, 'workspace' | 'slot' | 'commands' | 'folder' | 'tools' | 'signal' | 'onNotice'>,
  run: {
    readonly limits: CgroupLimits
    readonly onOutput: (chunk: Buffer) => void
    readonly onOutOfMemory: () => void
    readonly onThrashing?: () => void
  },
) => Promise<Ended & { readonly memory: MemoryUse | undefined }>

const MiB = 1024 * 1024
const GiB = 1024 * MiB

/** Registries that builds reach when the operator has named none. */
const defaultHosts = ['registry.npmjs.org', 'registry.yarnpkg.com']
/** npm and a bundler with a worker per core take about 100 threads on a small machine. */
const maxProcesses = 512
const treeLimits: TreeLimits = { maxBytes: 2 * GiB, maxFiles: 200_000 }
const maxOutputBytes = 1 * GiB
const maxTransferBytes = 4 * GiB
const firstTestGapMs = 5000
const maxTestGapMs = 60_000
/** How long a build waits for a test of the isolation before it counts as a fault of the platform. */
const maxTestWaitMs = 120_000

export interface SandboxDeps {
  readonly config: Pick<Config, 'build' | 'dataDir'>
  readonly log: Logger
  readonly limits?: Partial<{ tree: TreeLimits; outputBytes: number; processes: number }>
}

/**
 * Prepares the build folder, removes what an earlier runner left in it, tests the isolation, and writes the result to
 * `status.json` there. Builds are refused (`status.builds`) when there is none and the operator has not allowed that. A test without a
 * result is repeated in the background.
 */
export async function openSandbox({ config, log, limits = {} }: SandboxDeps): Promise<Sandbox> {
  const { build } = config
  await mkdir(build.dir, { recursive: true })
  await chmod(build.dir, 0o711)
  const cgroups = await findCgroups(`plinth-${createHash('sha256').update(build.dir).digest('hex').slice(0, 12)}`)
  await cgroups.removeLeftovers()
  await removeLeftoverWorkspaces(build.dir)
  const supportDir = await writeSupportFiles(build.dir, build.caFile)
  const egress = publicEgress(build.egressHosts ?? defaultHosts)
  const isRoot = process.getuid?.() === 0

  const bwrap = await programPath(build.bwrap)
  const closed = new AbortController()
  let isolated = false
  let status: SandboxStatus
  let isKnown = await test()
  const testing = isKnown ? Promise.resolve() : testAgain()

  return {
    environment: (name) => environmentOf(inside, build, { packageManager: { name } }),
    get status() {
      return status
    },
    async tested(signal) {
      if (isKnown) return
      await Promise.race([testing, once(AbortSignal.any([signal, AbortSignal.timeout(maxTestWaitMs)]), 'abort')])
      signal.throwIfAborted()
      if (!isKnown) throw new Error(status.problems.join('; '))
    },
    async run(request) {
      if (!status.builds) throw new Error('builds are refused: there is no isolation')
      const { signal } = request
      let stopped: StopCause | undefined
      let diskFull = false
      const stop = new AbortController()
      const stopFor = (cause: StopCause) => {
        stopped ??= cause
        stop.abort()
      }
      const timer = setTimeout(() => stopFor('time'), Math.max(0, request.timeoutMs))
      const cancel = () => stop.abort()
      signal.addEventListener('abort', cancel, { once: true })
      if (signal.aborted) cancel()
      let output = 0
      try {
        using _tree = watchTree(request.workspace.root, limits.tree ?? treeLimits, (problem) => {
          diskFull = problem === 'full'
          stopFor('disk')
        })
        const ended = await confined(
          isolated ? bwrap : undefined,
          { ...request, signal: stop.signal },
          {
            limits: { memoryBytes: build.memoryBytes, pids: limits.processes ?? maxProcesses },
            onOutput: (chunk) => {
              output += chunk.length
              if (output > (limits.outputBytes ?? maxOutputBytes)) stopFor('output')
              else request.onOutput(chunk)
            },
            onOutOfMemory: () => stopFor('memory'),
            onThrashing: () => stopFor('thrashing'),
          },
        )
        signal.throwIfAborted()
        if (ended.code !== 0 && stopped === undefined) diskFull = await isDiskFull(request.workspace.root)
        if (diskFull) throw new Error('the disk that builds work on is nearly full')
        return { started: ended.started, code: ended.code, stopped }
      } finally {
        clearTimeout(timer)
        signal.removeEventListener('abort', cancel)
      }
    },
    async [Symbol.asyncDispose]() {
      closed.abort()
      await testing
      await cgroups[Symbol.asyncDispose]()
    },
  }

  /** Returns whether the test has come to a result. */
  async function test(): Promise<boolean> {
    const { problems, isConclusive } = bwrap
      ? await testIsolation({ bwrap, confined, config, isRoot, limited: cgroups.kind !== 'none', signal: closed.signal })
      : { problems: [`bubblewrap (${build.bwrap}) is not installed`], isConclusive: true }
    await measureTree(supportDir, treeLimits).catch((error: Error) => problems.push(error.message))
    isolated = problems.length === 0
    if (cgroups.kind === 'none') problems.push('there are no cgroups to divide, so memory and process limits are only watched')
    const isUnsafe = isConclusive && build.sandbox === 'unsafe'
    status = {
      level: isolated ? (isRoot ? 'A' : "A'") : isUnsafe && isRoot ? 'B' : 'none',
      cgroup: cgroups.kind,
      builds: isolated || isUnsafe,
      problems,
    }
    await publishStatus(build.dir, status)
    if (isolated) log.info({ sandbox: status }, 'sandbox tested')
    else if (isConclusive) log.warn({ sandbox: status }, status.builds ? 'builds run WITHOUT isolation' : 'builds are refused')
    else log.warn({ sandbox: status }, 'builds wait until the isolation can be tested')
    return isConclusive
  }

  /** In the background, until it is known. */
  async function testAgain(): Promise<void> {
    for (let gapMs = firstTestGapMs; !isKnown; gapMs = Math.min(2 * gapMs, maxTestGapMs)) {
      await pause(gapMs, undefined, { signal: closed.signal }).catch(() => undefined)
      if (closed.signal.aborted) return
      isKnown = await test().catch((error: unknown) => {
        log.error({ err: error }, 'isolation not tested')
        return false
      })
    }
  }

  /** In a cgroup and behind an egress relay of its own. */
  async function confined(...[bwrapPath, request, run]: Parameters<RunConfined>): ReturnType<RunConfined> {
    const { workspace, slot, commands, folder, signal, onNotice } = request
    const tools = request.tools ?? { node: join(build.toolchainDir, 'node-20') }
    await using exit = openEgress({ policy: egress, maxBytes: maxTransferBytes, report: onNotice })
    const cgroup = await cgroups.open(workspace.id, run.limits)
    let watchdog: Disposable | undefined
    try {
      const view = {
        supportDir,
        toolchainDir: tools.node,
        packageManagerDir: tools.packageManager?.folder,
        source: workspace.source,
        home: workspace.home,
      }
      const outside = {
        ...view,
        toolchain: tools.node,
        packageManager: tools.packageManager?.folder ?? '',
        caBundle: join(supportDir, 'ca.pem'),
      }
      const env = environmentOf(bwrapPath ? inside : outside, run.limits, tools)
      const ended = await runConfined(
        { bwrap: bwrapPath, uid: slot.uid, cgroup, view: { ...view, env } },
        { commands, folder },
        {
          // without a namespace it would count every process of the runner's own user
          maxProcesses: cgroup || !(bwrapPath || slot.uid) ? 0 : run.limits.pids,
          signal,
          onEntrance: exit.accept,
          onOutput: run.onOutput,
          onStart(pid) {
            const { memoryBytes } = run.limits
            if (!cgroup) watchdog = watchMemory(pid, memoryBytes, run.onOutOfMemory)
            else if (run.onThrashing) watchdog = watchThrashing(() => cgroup.memory(), memoryBytes, run.onThrashing)
          },
        },
      )
      const memory = await cgroup?.memory()
      if (memory && memory.oomKills > 0) run.onOutOfMemory()
      return { ...ended, memory }
    } finally {
      watchdog?.[Symbol.dispose]()
      await cgroup?.remove()
    }
  }
}

/** All that a build gets of an environment: nothing of the runner's own. */
function environmentOf(
  at: { readonly toolchain: string; readonly packageManager: string; readonly home: string; readonly caBundle: string },
  { memoryBytes }: Pick<CgroupLimits, 'memoryBytes'>,
  {
    packageManager,
    hasPackages,
  }: { readonly packageManager?: Pick<Manager, 'name'> | undefined; readonly hasPackages?: boolean },
): Record<string, string> {
  return {
    PATH: [at.toolchain, ...(packageManager ? [at.packageManager] : []), '/usr']
      .map((folder) => `${folder}/bin`)
      .join(':')
      .concat(':/bin'),
    HOME: at.home,
    TMPDIR: '/tmp',
    LANG: 'C.UTF-8',
    CI: 'true',
    // Node sees the machine's memory, not the cgroup's; with this it collects garbage before the kernel ends it
    NODE_OPTIONS: `--max-old-space-size=${Math.max(64, Math.floor((memoryBytes * 0.75) / MiB))}`,
    NODE_EXTRA_CA_CERTS: at.caBundle,
    SSL_CERT_FILE: at.caBundle,
    ...managerEnvironment(packageManager?.name ?? 'npm', {
      folder: `${at.home}/${packagesFolder}`,
      hasPackages: hasPackages ?? false,
    }),
  }
}

/** The shell knows how to look a program up on the PATH. */
async function programPath(program: string): Promise<string | undefined> {
  const { stdout, exitCode } = await execa('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', program], { reject: false })
  return exitCode === 0 && stdout.startsWith('/') ? stdout : undefined
}

async function publishStatus(buildDir: string, status: SandboxStatus): Promise<void> {
  const file = join(buildDir, 'status.json')
  await writeFile(`${file}.tmp`, `${JSON.stringify(status)}\n`)
  await rename(`${file}.tmp`, file)
}
