import { relative } from 'node:path'
import { counted, sizeText } from '../core/amounts.ts'
import { buildSettingNames } from '../core/build-settings.ts'
import type { BuildMode } from '../core/deploy.ts'
import { AppError } from '../core/errors.ts'
import { maxArchiveEntries, maxDeployPathBytes } from '../core/limits.ts'
import { type SkippedPath, skippedLines } from '../core/skipped-paths.ts'
import { storeManifest } from '../infra/cas/manifests.ts'
import { readSiteRules } from '../infra/cas/site-rules.ts'
import type { BuildInput, BuildResult } from '../workflows/contract/builds.ts'
import { type BuildContext, type BuildDeps, type Phase, SourceFault } from './build-context.ts'
import { type BuildLog, openBuildLog } from './build-log.ts'
import { buildProject } from './build-project.ts'
import { type Commands, createCommands } from './commands.ts'
import { managerEnvironment } from './install/manager-environment.ts'
import { createPackages, type Packages } from './install/packages.ts'
import { collectFiles } from './output/collect.ts'
import type { FoundOutput } from './output/output-folder.ts'
import { ReadingStopped } from './readers.ts'
import { explainTreeError } from './sandbox/hostile-tree.ts'
import { isIsolated } from './sandbox/isolation.ts'
import { openWorkspace } from './sandbox/workspace.ts'
import type { SourceKind } from './source/read-source.ts'
import { fetchArchive } from './source/unpack.ts'

export interface BuildRun {
  readonly signal: AbortSignal
  /** Whether the deploy was cancelled. When the runner stops, the signal is aborted without that, and another one builds. */
  readonly isCancelled?: () => boolean
  readonly onPhase: (phase: Phase) => void
  /** Gets the log as soon as there is one. */
  readonly onLog?: (log: Pick<BuildLog, 'recent'>) => void
}

const MiB = 1024 * 1024
/** The size limit of an inflated archive and of an artifact, where the plan has none. */
const unlimitedBytes = 4096 * MiB

/**
 * Turns a source archive into stored files and a manifest. A fault of the source is a result; a fault of the platform is
 * thrown. It leaves no process, folder or cgroup behind.
 */
export async function runBuild(deps: BuildDeps, input: BuildInput, run: BuildRun): Promise<BuildResult> {
  const { signal, onPhase } = run
  onPhase('wait')
  await using slot = await deps.slots.acquire()
  signal.throwIfAborted()
  await using workspace = await openWorkspace(deps.config.build.dir, slot)
  await using reader = await deps.readers.take(signal)
  const variables = await deps.readVariables(input, signal)
  const secrets = 'refused' in variables ? [] : variables.secrets
  const { buildLogs: logs, log } = deps
  await using buildLog = await openBuildLog({ logs, log, reader, secrets, deployId: input.deploy_id, begunAt: input.log_bytes })
  run.onLog?.(buildLog)
  return await buildIn(
    {
      deps,
      input,
      slot,
      workspace,
      reader,
      buildLog,
      variables,
      signal: AbortSignal.any([signal, reader.stopped]),
      onPhase,
      maxBytes: Math.min(input.storage_bytes ?? unlimitedBytes, unlimitedBytes),
    },
    run,
  )
}

async function buildIn(context: BuildContext, run: BuildRun): Promise<BuildResult> {
  const { deps, input, reader, buildLog } = context
  const commands = createCommands(context)
  const packages = packagesOf(context)
  let build_mode: BuildMode = 'static'
  try {
    const source = await openSource(context)
    if (source.kind === 'build') build_mode = 'build'
    const output = source.kind === 'build' ? await buildProject(context, source, commands, packages) : source.output
    const stored = await storeOutput(context, output)
    const skipped = await reader.call('listSkipped')
    for (const line of skippedLines(skipped)) buildLog.line(line)
    await packages.keep()
    return { ...factsOf(commands.spentMs, skipped), ...stored, build_mode, outcome: 'built' }
  } catch (error) {
    if (run.isCancelled?.()) return cancelledResult(context, commands, build_mode)
    run.signal.throwIfAborted()
    const reason = reader.stopped.aborted ? reader.stopped.reason : error
    const found = faultOfSource(reason, context, commands)
    if (found === undefined) throw reason
    const fault = await buildLog.mask(found)
    deps.log.info({ deploy_id: input.deploy_id, site_id: input.site_id }, 'build failed')
    buildLog.line(`failed: ${fault.split('\n', 1)[0]}`)
    if (packages.restored) buildLog.line('the next build installs its packages again')
    else await packages.keep()
    const readingMs = reason instanceof ReadingStopped ? reason.spentMs : 0
    const skipped = reader.stopped.aborted ? [] : await reader.call('listSkipped')
    return { ...factsOf(commands.spentMs + readingMs, skipped), build_mode, outcome: 'failed', error: fault }
  }
}

/** What a build has taken that its owner no longer wants. Nothing of it is kept. */
function cancelledResult({ deps, input, buildLog }: BuildContext, commands: Commands, build_mode: BuildMode): BuildResult {
  deps.log.info({ deploy_id: input.deploy_id, site_id: input.site_id }, 'build cancelled')
  buildLog.line('cancelled')
  return { build_mode, build_seconds: Math.ceil(commands.spentMs / 1000), skipped_paths: [], outcome: 'cancelled' }
}

/** Fetches and unpacks the source, and plans its build. */
async function openSource(context: BuildContext): Promise<Exclude<SourceKind, { kind: 'refused' }>> {
  const { deps, input, slot, workspace, reader, buildLog, signal, onPhase, maxBytes } = context
  onPhase('fetch source')
  const archive = await fetchArchive(deps.cas, input.source_sha256, workspace, signal)
  onPhase('unpack')
  const overMaxBytes = overQuota('the archive unpacks to more than', context)
  const into = { into: workspace.source, uid: slot.uid, maxBytes, overMaxBytes }
  const { files, source } = await reader.call('readSource', { archive, ...into, settings: input.settings })
  buildLog.line(`unpacked ${counted(files, 'file')}`)
  if (source.kind === 'refused') throw new SourceFault(source.error)
  const own = buildSettingNames.filter((name) => source.settings.owners[name] === 'plinth.json')
  if (own.length > 0) buildLog.line(`plinth.json sets ${own.join(', ')}`)
  if (source.kind === 'static' && source.settings.install_command) {
    buildLog.line('install_command is not run, as there is neither package.json nor build_command')
  }
  return source
}

function packagesOf({ deps, input, workspace, slot, reader, buildLog }: BuildContext): Packages {
  const { sandbox, keptFolders, log } = deps
  return createPackages({
    keptFolders,
    owner: { project_id: input.project_id, trust: input.trust },
    workspace,
    slot,
    isIsolated: () => isIsolated(sandbox.status),
    nameInstall: (plan) => reader.call('nameInstall', plan),
    environmentOf: (manager) => sandbox.environment(manager !== 'npm', (home) => managerEnvironment(manager, home, false)),
    report: (line) => buildLog.line(line),
    log,
  })
}

async function storeOutput(context: BuildContext, output: FoundOutput) {
  if ('error' in output) throw new SourceFault(await withLeftOutIndex(context, output.error))
  const { deps, input, workspace, reader, buildLog, signal, onPhase, maxBytes } = context
  const { folder, noIndex } = output
  onPhase('collect')
  // nothing of a refused or cancelled build is stored
  await using objects = deps.cas.batch()
  const files = await collectFiles(folder, {
    objects,
    listFolder: (...args) => reader.call('listFolder', ...args),
    skip: (...args) => reader.call('skip', ...args),
    source: workspace.source,
    signal,
    maxFiles: maxArchiveEntries,
    maxPathBytes: maxDeployPathBytes,
    maxBytes,
    overMaxBytes: overQuota('the files to publish have more than', context),
  })
  if (!files.some((file) => file.path === 'index.html')) throw new SourceFault(await withLeftOutIndex(context, noIndex))
  onPhase('store')
  const { rules, faults } = await readSiteRules(objects, files)
  for (const { file, line, reason } of faults) buildLog.line(`line ${line} of ${file} is left out: it ${reason}`)
  const manifest_sha256 = await storeManifest(objects, files, rules)
  signal.throwIfAborted()
  await objects.publish()
  const total_bytes = files.reduce((sum, file) => sum + file.size, 0)
  const from = relative(workspace.source, folder)
  const { deploy_id, site_id } = input
  deps.log.info({ deploy_id, site_id, files: files.length, bytes: total_bytes }, 'build stored')
  buildLog.line(`stored ${counted(files.length, 'file')} (${sizeText(total_bytes)})${from && ` from ${from}`}`)
  return { manifest_sha256, file_count: files.length, total_bytes }
}

/** The refusal of what has no index.html; when there is one that is not published, with the reason for that. */
async function withLeftOutIndex({ input, reader }: BuildContext, refusal: string): Promise<string> {
  const { root_dir } = input.settings
  const indexes = ['index.html', ...(root_dir === null ? [] : [`${root_dir}/index.html`])]
  const leftOut = (await reader.call('listSkipped')).find(({ path }) => indexes.includes(path))
  return leftOut ? `${refusal} (${leftOut.path} is left out: ${leftOut.reason})` : refusal
}

/** The text for the author of the source; undefined when the platform is at fault. */
function faultOfSource(error: unknown, { workspace }: BuildContext, { hasRun }: Commands): string | undefined {
  const isRefusal = error instanceof AppError && (error.kind === 'invalid' || error.kind === 'conflict')
  if (isRefusal || error instanceof SourceFault || error instanceof ReadingStopped) return error.message
  return hasRun ? explainTreeError(error, workspace) : undefined
}

const factsOf = (spentMs: number, skipped: readonly SkippedPath[]) => ({
  build_seconds: Math.ceil(spentMs / 1000),
  skipped_paths: skipped.map(({ path }) => path),
})

function overQuota(what: string, { input, maxBytes }: BuildContext): string {
  const limit = `${Math.floor(maxBytes / MiB)} MB`
  return input.storage_bytes === null || input.storage_bytes > maxBytes
    ? `${what} ${limit}, the most that one deploy may have; leave out what the site does not need`
    : `${what} the storage quota of the ${input.plan_title} plan (${limit}); leave out what the site does not need, or change the plan`
}
