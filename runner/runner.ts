import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Cas } from '../infra/cas/cas.ts'
import type { Config } from '../infra/config.ts'
import type { Logger } from '../infra/log.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import type { ThreadLimits } from '../infra/threads/limited-thread.ts'
import { openToolchain, toolchainOptions } from '../infra/toolchain/toolchain.ts'
import type { BuildDeps } from './build-context.ts'
import { openKeptFolders } from './install/kept-folders.ts'
import type { KeptLimits } from './install/kept-limits.ts'
import { openReaders } from './readers.ts'
import { openSandbox, type SandboxLimits } from './sandbox/sandbox.ts'
import { createSlots } from './sandbox/slots.ts'
import type { ReadVariables } from './variables.ts'
import { startBuildWorker } from './worker.ts'

export interface BuildDepsOptions {
  readonly config: Pick<Config, 'build' | 'dataDir' | 'cacheDir' | 'npm'>
  readonly cas: Cas
  readonly buildLogs: BuildLogs
  readonly log: Logger
  readonly readVariables: ReadVariables
  /** Other limits than the usual ones. */
  readonly sandboxLimits?: Partial<SandboxLimits>
  readonly keptLimits?: Partial<KeptLimits>
  readonly readingLimits?: Partial<ThreadLimits>
}

export interface RunnerOptions extends BuildDepsOptions {
  readonly temporal: TemporalAddress
  /** How long builds go on after a stop, before they are cancelled and left to another runner. */
  readonly shutdownGraceMs: number
}

/** Prepares the build folder, tests the isolation, and then works on the build queue. */
export async function openRunner(options: RunnerOptions): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack()
  const deps = stack.use(await openBuildDeps(options))
  stack.use(startBuildWorker(options.temporal, deps, options.shutdownGraceMs))
  return stack.move()
}

/** Opens everything that builds need, without the queue. */
export async function openBuildDeps(options: BuildDepsOptions): Promise<BuildDeps & AsyncDisposable> {
  const { config, cas, buildLogs, log, readVariables, sandboxLimits, keptLimits, readingLimits } = options
  await using stack = new AsyncDisposableStack()
  const toolchain = openToolchain(toolchainOptions(config))
  // the isolation is tested with it
  await toolchain.get('node-20', { report: (line) => log.info(line) })
  const sandbox = stack.use(await openSandbox({ config, log, ...(sandboxLimits && { limits: sandboxLimits }) }))
  const keptFolders = await openKeptFolders(config.build.dir, keptLimits)
  const slots = createSlots(config.build.slots, config.build.dir, process.getuid?.() === 0)
  const readers = stack.use(openReaders(readingLimits))
  const opened = stack.move()
  const deps = { cas, buildLogs, config, log, sandbox, slots, readers, toolchain, keptFolders, readVariables }
  return { ...deps, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}
