import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Command,
  noOutputFolder,
  noOutputIndex,
  noStaticIndex,
  outputFolders,
  planBuild,
  wrappingFolder,
} from '../core/build-plan.ts'
import { AppError } from '../core/errors.ts'
import { maxArchiveEntries } from '../core/limits.ts'
import { createSkippedPaths } from '../infra/archive/skipped-paths.ts'
import type { Cas } from '../infra/cas/cas.ts'
import { storeManifest } from '../infra/cas/manifests.ts'
import type { Config } from '../infra/config.ts'
import type { Logger } from '../infra/log.ts'
import type { BuildInput, BuildResult } from '../workflows/contract.ts'
import { type BuildLog, createBuildLog } from './build-log.ts'
import { collectFiles, isRealFolder } from './collect.ts'
import { explainFailure } from './failure.ts'
import type { Sandbox } from './sandbox.ts'
import type { Slot, Slots } from './slots.ts'
import { fetchArchive, unpack } from './unpack.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

export interface BuildDeps {
  readonly cas: Cas
  readonly config: Pick<Config, 'build'>
  readonly log: Logger
  readonly sandbox: Sandbox
  readonly slots: Slots
}

export type Phase = 'wait' | 'fetch source' | 'unpack' | 'install' | 'build' | 'collect' | 'store'

export interface BuildRun {
  readonly signal: AbortSignal
  readonly onPhase: (phase: Phase) => void
}

const MiB = 1024 * 1024
/** What an archive may inflate to, and an artifact hold, where the plan has no limit. */
const unlimitedBytes = 4096 * MiB

/** The folder to publish, and what is said when it holds no index.html. */
interface Artifact {
  readonly folder: string
  readonly noIndex: string
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
  return await buildIn(workspace, slot, deps, input, run)
}

async function buildIn(
  workspace: Workspace,
  slot: Slot,
  deps: BuildDeps,
  input: BuildInput,
  run: BuildRun,
): Promise<BuildResult> {
  const { cas, config, log, sandbox } = deps
  const { signal, onPhase } = run
  const skipped = createSkippedPaths()
  const maxBytes = Math.min(input.storage_bytes ?? unlimitedBytes, unlimitedBytes)
  const buildLog = createBuildLog()
  let build_mode: BuildResult['build_mode'] = 'static'
  let commandMs = 0

  try {
    return await succeed(await artifact())
  } catch (error) {
    signal.throwIfAborted()
    const refusal = error instanceof AppError && (error.kind === 'invalid' || error.kind === 'conflict')
    if (!refusal && !(error instanceof SourceFault)) throw error
    log.info({ deploy_id: input.deploy_id, site_id: input.site_id }, 'build failed')
    return { ...(await facts()), outcome: 'failed', error: error.message }
  }

  async function artifact(): Promise<Artifact> {
    onPhase('fetch source')
    const archive = await fetchArchive(cas, input.source_sha256, workspace, signal)
    onPhase('unpack')
    const overMaxBytes = overQuota('the archive unpacks to more than', input, maxBytes)
    const content = await unpack(archive, workspace.source, { uid: slot.uid, maxBytes, overMaxBytes, signal })
    const wrapping = wrappingFolder(content.paths)
    for (const path of content.skipped_paths) skipped.add(path.startsWith(wrapping) ? path.slice(wrapping.length) : path)
    const root = join(workspace.source, wrapping)
    if (!content.paths.has(`${wrapping}package.json`)) {
      if (!content.paths.has(`${wrapping}index.html`)) throw new SourceFault(noStaticIndex)
      return { folder: root, noIndex: noStaticIndex }
    }
    build_mode = 'build'
    const rootFiles = new Set(
      [...content.paths].filter((path) => path.startsWith(wrapping)).map((path) => path.slice(wrapping.length)),
    )
    const packageJson = await readFile(join(root, 'package.json'), 'utf8')
    if (packageJson.length > MiB) throw new SourceFault('package.json is larger than 1 MB; that is no package description')
    const plan = planBuild(packageJson, rootFiles)
    if (plan.kind === 'refused') throw new SourceFault(plan.error)
    if (!sandbox.status.builds) {
      log.error({ deploy_id: input.deploy_id, problems: sandbox.status.problems }, 'build refused without isolation')
      throw new SourceFault(
        'this server cannot run builds at present, because it cannot isolate them; send the built files without package.json, or ask the operator',
      )
    }
    onPhase('install')
    await execute(root, plan.install, [['node', '-v'], plan.install])
    onPhase('build')
    await execute(root, plan.build, [plan.build])
    return await outputOf(root)
  }

  async function execute(source: string, command: Command, commands: readonly Command[]): Promise<void> {
    const began = performance.now()
    try {
      const ended = await sandbox.run({
        workspace: { ...workspace, source },
        slot,
        commands,
        timeoutMs: config.build.timeoutMs - commandMs,
        signal,
        onOutput: buildLog.append,
        onNotice: buildLog.line,
      })
      if (!ended.started && !ended.stopped) throw new Error(`the sandbox did not start: ${buildLog.text().trim().slice(-500)}`)
      if (ended.code === 0 && !ended.stopped) return
      const { memoryBytes, timeoutMs } = config.build
      throw new SourceFault(explainFailure({ ...ended, command, log: buildLog.text(), memoryBytes, timeoutMs }))
    } finally {
      commandMs += performance.now() - began
    }
  }

  async function succeed({ folder, noIndex }: Artifact): Promise<BuildResult> {
    onPhase('collect')
    const files = await collectFiles(folder, {
      cas,
      skipped,
      signal,
      maxFiles: maxArchiveEntries,
      maxBytes,
      overMaxBytes: overQuota('the files to publish have more than', input, maxBytes),
    })
    if (!files.some((file) => file.path === 'index.html')) throw new SourceFault(noIndex)
    onPhase('store')
    const manifest_sha256 = await storeManifest(cas, files)
    const total_bytes = files.reduce((sum, file) => sum + file.size, 0)
    log.info({ deploy_id: input.deploy_id, site_id: input.site_id, files: files.length, bytes: total_bytes }, 'build stored')
    return { ...(await facts()), outcome: 'built', manifest_sha256, file_count: files.length, total_bytes }
  }

  async function facts() {
    return {
      build_mode,
      log_sha256: await storeLog(cas, buildLog),
      build_seconds: Math.ceil(commandMs / 1000),
      skipped_paths: skipped.list(),
    }
  }
}

async function outputOf(root: string): Promise<Artifact> {
  for (const folder of outputFolders) {
    if (!(await isRealFolder(root, folder))) continue
    return { folder: join(root, folder), noIndex: noOutputIndex(folder) }
  }
  throw new SourceFault(noOutputFolder)
}

async function storeLog(cas: Cas, log: BuildLog): Promise<string | null> {
  return log.size() === 0 ? null : (await cas.put(Buffer.from(log.text()))).sha256
}

function overQuota(what: string, { storage_bytes, plan_title }: BuildInput, maxBytes: number): string {
  const limit = `${Math.floor(maxBytes / MiB)} MB`
  return storage_bytes === null || storage_bytes > maxBytes
    ? `${what} ${limit}, the most that one deploy may have; leave out what the site does not need`
    : `${what} the storage quota of the ${plan_title} plan (${limit}); leave out what the site does not need, or change the plan`
}
