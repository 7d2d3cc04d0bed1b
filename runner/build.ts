import { relative } from 'node:path'
import { counted, sizeText } from '../core/amounts.ts'
import { type Command, commandText } from '../core/build-plan.ts'
import { readableLevels } from '../core/build-trust.ts'
import { AppError } from '../core/errors.ts'
import { maxArchiveEntries, maxDeployPathBytes } from '../core/limits.ts'
import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Cas } from '../infra/cas/cas.ts'
import { storeManifest } from '../infra/cas/manifests.ts'
import type { Config } from '../infra/config.ts'
import type { Logger } from '../infra/log.ts'
import type { Toolchain } from '../infra/toolchain.ts'
import type { BuildInput, BuildResult } from '../workflows/contract.ts'
import { type BuildLog, openBuildLog } from './build-log.ts'
import type { KeptFolders } from './install/kept-folders.ts'
import { type Install, takeInstall } from './install/kept-installs.ts'
import { type PackageCache, takePackages } from './install/package-cache.ts'
import { collectFiles } from './output/collect.ts'
import type { FoundOutput } from './output/output-folder.ts'
import { type Reader, type Readers, ReadingStopped } from './readers.ts'
import type { Step } from './sandbox/confine.ts'
import { explainTreeError, reopenFolders } from './sandbox/hostile-tree.ts'
import type { BuildTools, Sandbox } from './sandbox/sandbox.ts'
import type { Slot, Slots } from './sandbox/slots.ts'
import { openWorkspace, type Workspace } from './sandbox/workspace.ts'
import type { SourcePlan } from './source/source-plan.ts'
import { fetchArchive } from './source/unpack.ts'

export interface BuildDeps {
  readonly cas: Cas
  readonly buildLogs: BuildLogs
  readonly config: Pick<Config, 'build'>
  readonly log: Logger
  readonly sandbox: Sandbox
  readonly slots: Slots
  readonly readers: Readers
  readonly toolchain: Toolchain
  readonly keptFolders: KeptFolders
}

export type Phase = 'wait' | 'fetch source' | 'unpack' | 'install' | 'build' | 'collect' | 'store'

export interface BuildRun {
  readonly signal: AbortSignal
  readonly onPhase: (phase: Phase) => void
  /** Gets the log as soon as there is one. */
  readonly onLog?: (log: Pick<BuildLog, 'recent'>) => void
}

const MiB = 1024 * 1024
/** What an archive may inflate to, and an artifact hold, where the plan has no limit. */
const unlimitedBytes = 4096 * MiB

/** The folder to publish, and what is said when it holds no index.html. */
interface Artifact {
  readonly folder: string
  readonly noIndex: string
}

type BuildPlan = Extract<SourcePlan, { kind: 'build' }>

/** A command in a folder of the source, with a slash at its end; the root is empty. */
interface Execution {
  readonly root: string
  readonly tools: BuildTools
  readonly folder: string
  readonly command: Command
  readonly before?: readonly Step[]
}

/** Thrown inside a build for what is wrong with the source; its message is the deploy's `error`. */
class SourceFault extends Error {}

/**
 * Turns a source archive into stored files and a manifest. What is wrong with the source is a result; what is wrong with the
 * platform is thrown. Leaves no process, folder or cgroup behind.
 */
export async function runBuild(deps: BuildDeps, input: BuildInput, run: BuildRun): Promise<BuildResult> {
  run.onPhase('wait')
  await using slot = await deps.slots.acquire()
  run.signal.throwIfAborted()
  await using workspace = await openWorkspace(deps.config.build.dir, slot)
  await using reader = await deps.readers.take(run.signal)
  const { buildLogs: logs, log } = deps
  await using buildLog = await openBuildLog({ logs, log, reader, deployId: input.deploy_id, begunAt: input.log_bytes })
  run.onLog?.(buildLog)
  return await buildIn(workspace, slot, deps, input, run, buildLog, reader)
}

async function buildIn(
  workspace: Workspace,
  slot: Slot,
  deps: BuildDeps,
  input: BuildInput,
  run: BuildRun,
  buildLog: BuildLog,
  reader: Reader,
): Promise<BuildResult> {
  const { cas, config, log, sandbox, toolchain, keptFolders } = deps
  const { onPhase } = run
  const signal = AbortSignal.any([run.signal, reader.stopped])
  const maxBytes = Math.min(input.storage_bytes ?? unlimitedBytes, unlimitedBytes)
  const owner = { project_id: input.project_id, trust: input.trust }
  const isSharing = sandbox.status.level.startsWith('A') && readableLevels(input.trust).length > 0
  let build_mode: BuildResult['build_mode'] = 'static'
  let commandMs = 0
  let hasRun = false
  let install: Install | undefined

  try {
    const built = await succeed(await artifact())
    await keepInstall()
    return built
  } catch (error) {
    run.signal.throwIfAborted()
    const reason = reader.stopped.aborted ? reader.stopped.reason : error
    const fault = faultOfSource(reason)
    if (fault === undefined) throw reason
    if (reason instanceof ReadingStopped) commandMs += reason.spentMs
    log.info({ deploy_id: input.deploy_id, site_id: input.site_id }, 'build failed')
    buildLog.line(`failed: ${fault.split('\n', 1)[0]}`)
    if (install?.restored) buildLog.line('the next build installs its packages anew')
    else await keepInstall()
    return { ...(await facts()), outcome: 'failed', error: fault }
  }

  /** The text for the author of the source; undefined when the platform is at fault. */
  function faultOfSource(error: unknown): string | undefined {
    const isRefusal = error instanceof AppError && (error.kind === 'invalid' || error.kind === 'conflict')
    if (isRefusal || error instanceof SourceFault || error instanceof ReadingStopped) return error.message
    return hasRun ? explainTreeError(error, workspace) : undefined
  }

  async function artifact(): Promise<Artifact> {
    onPhase('fetch source')
    const archive = await fetchArchive(cas, input.source_sha256, workspace, signal)
    onPhase('unpack')
    const { settings, root_dir } = input
    const overMaxBytes = overQuota('the archive unpacks to more than', input, maxBytes)
    const into = { into: workspace.source, uid: slot.uid, maxBytes, overMaxBytes }
    const { files, source } = await reader.call('readSource', { archive, ...into, root_dir, settings })
    buildLog.line(`unpacked ${counted(files, 'file')}`)
    if (source.kind === 'refused') throw new SourceFault(source.error)
    if (source.kind === 'static') {
      if (settings?.install_command)
        buildLog.line('install_command is not run, as there is neither package.json nor build_command')
      return published(source.output)
    }
    build_mode = 'build'
    const { plan, root, folder } = source
    if (plan.kind === 'refused') throw new SourceFault(plan.error)
    await sandbox.tested(signal)
    if (!sandbox.status.builds) {
      log.error({ deploy_id: input.deploy_id, problems: sandbox.status.problems }, 'build refused without isolation')
      throw new SourceFault(
        'this server cannot run builds at present, because it cannot isolate them; send the built files without package.json, or ask the operator',
      )
    }
    onPhase('install')
    install = await takeInstallOf(plan, root)
    const cache = install?.restored ? undefined : await takeCache(plan)
    const tools = await toolsOf(plan, cache?.isWarm)
    const before: Step[] = [['node', '-v']]
    if (install?.restored && plan.install) {
      before.push(commandLine(plan.installFolder, plan.install), restoredText(plan.lockName ?? '', install.restored.packages))
    } else if (plan.install) {
      await execute({ root, tools, folder: plan.installFolder, command: plan.install, before: before.splice(0) })
      await install?.remember()
      await cache?.setAside().catch((error) => log.warn({ err: error }, 'packages not kept'))
    }
    onPhase('build')
    await execute({ root, tools, folder, command: plan.build, before })
    return published(await reader.call('findOutput', settings))
  }

  async function toolsOf({ node, packageManager }: BuildPlan, hasPackages: boolean | undefined): Promise<BuildTools> {
    const request = { signal, report: (line: string) => buildLog.line(line) }
    const [nodeFolder, managerFolder] = await Promise.all([
      toolchain.get(`node-${node}`, request),
      packageManager === 'npm' ? undefined : toolchain.get(packageManager, request),
    ])
    const manager = managerFolder && { name: packageManager, folder: managerFolder }
    return { node: nodeFolder, packageManager: manager || undefined, hasPackages: hasPackages ?? false }
  }

  /** Undefined where there is nothing to keep, or no isolation that keeps one project from another's. */
  async function takeCache({ node, packageManager, lockSha256 }: BuildPlan): Promise<PackageCache | undefined> {
    if (lockSha256 === undefined || !isSharing) return undefined
    const request = { ...owner, lockSha256, packageManager, tools: `node-${node} ${packageManager}` }
    const cache = await takePackages(keptFolders, request, workspace, slot)
    if (cache.isWarm) buildLog.line('packages of an earlier build with this lock file are at hand')
    return cache
  }

  /** Undefined where only an install can tell what it leaves, or where nothing is handed on. */
  async function takeInstallOf(plan: BuildPlan, root: string) {
    const { install, packageManager } = plan
    if (!install || !isSharing) return undefined
    const environment = sandbox.environment(packageManager)
    const name = await reader.call('nameInstall', { ...plan, install, environment })
    if (name === undefined) return undefined
    const request = { ...owner, name, root, folder: plan.installFolder }
    return await takeInstall(keptFolders, request, workspace, slot)
  }

  async function keepInstall(): Promise<void> {
    await install?.keep().catch((error) => log.warn({ err: error }, 'installed packages not kept'))
  }

  async function execute({ root, tools, folder, command, before = [] }: Execution): Promise<void> {
    const began = performance.now()
    hasRun = true
    try {
      const ended = await sandbox.run({
        workspace: { ...workspace, source: root },
        slot,
        tools,
        folder,
        commands: [...before, command],
        timeoutMs: config.build.timeoutMs - commandMs,
        signal,
        onOutput: (chunk) => buildLog.append(chunk),
        onNotice: (line) => buildLog.line(line),
      })
      if (!ended.started && !ended.stopped) {
        throw new Error(`the sandbox did not start: ${(await buildLog.recent()).trim().slice(-500)}`)
      }
      if (ended.code === 0 && !ended.stopped) return
      const { memoryBytes, timeoutMs } = config.build
      const failure = { ...ended, command, log: await buildLog.recent(), memoryBytes, timeoutMs }
      throw new SourceFault(await reader.call('explainFailure', failure))
    } finally {
      commandMs += performance.now() - began
      await reopenFolders({ source: root, home: workspace.home })
    }
  }

  async function succeed({ folder, noIndex }: Artifact): Promise<BuildResult> {
    onPhase('collect')
    // what is refused or cancelled was never in the storage
    await using objects = cas.batch()
    const files = await collectFiles(folder, {
      objects,
      reader,
      within: workspace.source,
      signal,
      maxFiles: maxArchiveEntries,
      maxPathBytes: maxDeployPathBytes,
      maxBytes,
      overMaxBytes: overQuota('the files to publish have more than', input, maxBytes),
    })
    if (!files.some((file) => file.path === 'index.html')) throw new SourceFault(noIndex)
    onPhase('store')
    const manifest_sha256 = await storeManifest(objects, files)
    signal.throwIfAborted()
    await objects.publish()
    const total_bytes = files.reduce((sum, file) => sum + file.size, 0)
    const from = relative(workspace.source, folder)
    log.info({ deploy_id: input.deploy_id, site_id: input.site_id, files: files.length, bytes: total_bytes }, 'build stored')
    buildLog.line(`stored ${counted(files.length, 'file')} (${sizeText(total_bytes)})${from && ` from ${from}`}`)
    return { ...(await facts()), outcome: 'built', manifest_sha256, file_count: files.length, total_bytes }
  }

  async function facts() {
    return {
      build_mode,
      build_seconds: Math.ceil(commandMs / 1000),
      skipped_paths: reader.stopped.aborted ? [] : await reader.call('listSkipped'),
    }
  }
}

function published(output: FoundOutput): Artifact {
  if ('error' in output) throw new SourceFault(output.error)
  return output
}

/** As the sandbox says what it runs. */
const commandLine = (folder: string, command: Command) => `$ ${folder && `cd ${folder.slice(0, -1)} && `}${commandText(command)}`

const restoredText = (lockName: string, packages: number) =>
  `node_modules restored from the last install of the same ${lockName} (${counted(packages, 'package')})`

function overQuota(what: string, { storage_bytes, plan_title }: BuildInput, maxBytes: number): string {
  const limit = `${Math.floor(maxBytes / MiB)} MB`
  return storage_bytes === null || storage_bytes > maxBytes
    ? `${what} ${limit}, the most that one deploy may have; leave out what the site does not need`
    : `${what} the storage quota of the ${plan_title} plan (${limit}); leave out what the site does not need, or change the plan`
}
