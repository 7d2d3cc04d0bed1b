import { createHash } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import { execa } from 'execa'
import type { Config } from '../../infra/config.ts'
import type { Logger } from '../../infra/log.ts'
import { inside } from './bubblewrap.ts'
import type { Ended } from './confine.ts'
import { publicEgress } from './egress.ts'
import { buildEnvironment, type PackageVariables } from './environment.ts'
import { findCgroups } from './find-cgroups.ts'
import { type Isolation, isIsolated, openIsolation } from './isolation.ts'
import { type ConfinedRequest, createRunInCgroup, type RunInCgroup } from './run-in-cgroup.ts'
import { type Tested, testIsolation } from './self-test.ts'
import { writeSupportFiles } from './support-files.ts'
import { isDiskFull, measureTree, type TreeLimits, watchTree } from './watch.ts'
import { removeLeftoverWorkspaces } from './workspace.ts'

/** Why the runner has stopped a build. */
export type StopCause = 'time' | 'disk' | 'output' | 'memory' | 'thrashing'

export interface RunRequest extends ConfinedRequest {
  readonly timeoutMs: number
  /** Stops the run; it then rejects with the signal's reason. */
  readonly signal: AbortSignal
  readonly onOutput: (chunk: Buffer) => void
}

export interface RunOutcome extends Ended {
  readonly stopped: StopCause | undefined
}

export interface Sandbox extends Pick<Isolation, 'status' | 'tested'>, AsyncDisposable {
  /**
   * The environment of the commands of a build.
   * @param hasManager whether the build needs a package manager besides npm
   * @param variables for the package manager
   */
  environment(hasManager: boolean, variables: PackageVariables): Record<string, string>
  run(request: RunRequest): Promise<RunOutcome>
}

const MiB = 1024 * 1024
const GiB = 1024 * MiB

/** The registries that builds reach by default. */
const defaultHosts = ['registry.npmjs.org', 'registry.yarnpkg.com', 'pypi.org', 'files.pythonhosted.org']

export interface SandboxLimits {
  /** The limits of a build's folders. */
  readonly tree: TreeLimits
  readonly outputBytes: number
  readonly processes: number
}

const defaultLimits: SandboxLimits = {
  tree: { maxBytes: 2 * GiB, maxFiles: 200_000 },
  outputBytes: 1 * GiB,
  // npm and a bundler with a worker per core take about 100 threads on a small machine
  processes: 512,
}

export interface SandboxDeps {
  readonly config: Pick<Config, 'build' | 'dataDir'>
  readonly log: Logger
  readonly limits?: Partial<SandboxLimits>
}

/**
 * Prepares the build folder, removes the leftovers of an earlier runner, tests the isolation, and writes the result to
 * `status.json` there. Builds are refused (`status.builds`) when there is none and the operator has not allowed that. A test without a
 * result is repeated in the background.
 */
export async function openSandbox({ config, log, limits: wanted = {} }: SandboxDeps): Promise<Sandbox> {
  const { build } = config
  const limits = { ...defaultLimits, ...wanted }
  await mkdir(build.dir, { recursive: true })
  await chmod(build.dir, 0o711)
  const cgroups = await findCgroups(`plinth-${createHash('sha256').update(build.dir).digest('hex').slice(0, 12)}`)
  await cgroups.removeLeftovers()
  await removeLeftoverWorkspaces(build.dir)
  const supportDir = await writeSupportFiles(build.dir, build.caFile)
  const egress = publicEgress(build.egressHosts ?? defaultHosts)
  const runInCgroup = createRunInCgroup({ build, cgroups, egress, supportDir })
  const bwrap = await programPath(build.bwrap)
  const isRoot = process.getuid?.() === 0
  const isolation = await openIsolation({
    test: testAll,
    cgroup: cgroups.kind,
    isRoot,
    allowsUnsafe: build.sandbox === 'unsafe',
    buildDir: build.dir,
    log,
  })

  return {
    get status() {
      return isolation.status
    },
    tested: (signal) => isolation.tested(signal),
    environment: (hasManager, variables) =>
      buildEnvironment(
        { ...inside, packageManager: hasManager ? inside.packageManager : undefined, generator: undefined, made: undefined },
        build,
        variables,
      ),
    async run(request) {
      if (!isolation.status.builds) throw new Error('builds are refused: there is no isolation')
      const program = isIsolated(isolation.status) ? bwrap : undefined
      return await runWithLimits(runInCgroup, program, request, { ...limits, memoryBytes: build.memoryBytes })
    },
    async [Symbol.asyncDispose]() {
      await isolation[Symbol.asyncDispose]()
      await cgroups[Symbol.asyncDispose]()
    },
  }

  async function testAll(signal: AbortSignal): Promise<Tested> {
    const limited = cgroups.kind !== 'none'
    const { problems, isConclusive } = bwrap
      ? await testIsolation({ bwrap, runInCgroup, config, isRoot, limited, signal })
      : { problems: [`bubblewrap (${build.bwrap}) is not installed`], isConclusive: true }
    await measureTree(supportDir, defaultLimits.tree).catch((error: Error) => problems.push(error.message))
    return { problems, isConclusive }
  }
}

/** Runs commands until they end or reach a limit of time, disk, output or memory. */
async function runWithLimits(
  runInCgroup: RunInCgroup,
  bwrap: string | undefined,
  request: RunRequest,
  limits: SandboxLimits & { readonly memoryBytes: number },
): Promise<RunOutcome> {
  const { signal, workspace } = request
  const limit = new AbortController()
  let stopped: StopCause | undefined
  let isFull = false
  let output = 0
  const stopFor = (cause: StopCause) => {
    stopped ??= cause
    limit.abort()
  }
  const timer = setTimeout(() => stopFor('time'), Math.max(0, request.timeoutMs))
  try {
    using _tree = watchTree(workspace.root, limits.tree, (problem) => {
      isFull = problem === 'full'
      stopFor('disk')
    })
    const ended = await runInCgroup(
      bwrap,
      { ...request, signal: AbortSignal.any([signal, limit.signal]) },
      {
        limits: { memoryBytes: limits.memoryBytes, pids: limits.processes },
        onOutput: (chunk) => {
          output += chunk.length
          if (output > limits.outputBytes) stopFor('output')
          else request.onOutput(chunk)
        },
        onOutOfMemory: () => stopFor('memory'),
        onThrashing: () => stopFor('thrashing'),
      },
    )
    signal.throwIfAborted()
    if (ended.code !== 0 && stopped === undefined) isFull = await isDiskFull(workspace.root)
    if (isFull) throw new Error('the disk that builds work on is nearly full')
    return { started: ended.started, code: ended.code, stopped }
  } finally {
    clearTimeout(timer)
  }
}

/** The shell knows how to look a program up on the PATH. */
async function programPath(program: string): Promise<string | undefined> {
  const { stdout, exitCode } = await execa('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', program], { reject: false })
  return exitCode === 0 && stdout.startsWith('/') ? stdout : undefined
}
