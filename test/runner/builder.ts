import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject } from 'vitest'
import { noSettings, type OwnSettings, overrideSettings } from '../../core/build-settings.ts'
import { openDiskBuildLogs } from '../../infra/build-logs/disk.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { type Config, loadConfig } from '../../infra/config.ts'
import { createLogger } from '../../infra/log.ts'
import type { ThreadLimits } from '../../infra/threads/limited-thread.ts'
import { runBuild } from '../../runner/build.ts'
import type { Phase } from '../../runner/build-context.ts'
import type { KeptLimits } from '../../runner/install/kept-limits.ts'
import { openBuildDeps } from '../../runner/runner.ts'
import type { SandboxStatus } from '../../runner/sandbox/isolation.ts'
import type { SandboxLimits } from '../../runner/sandbox/sandbox.ts'
import type { VariablesAnswer } from '../../runner/variables.ts'
import type { BuildInput } from '../../workflows/contract/builds.ts'
import { type MadeEntry, tarGz } from '../infra/archives.ts'
import { builtBy } from '../make.ts'

const isRoot = process.getuid?.() === 0

/** Fails the whole file, loudly, where builds cannot be isolated: nothing it says would mean anything there. */
export function expectIsolation({ level, problems }: SandboxStatus): void {
  const need = `these tests need a working bubblewrap: ${problems.join('; ')}`
  expect(level, need).toBe(isRoot ? 'A' : "A'")
}

const noVariables = { values: {}, secrets: [] }

export type BuildFiles = Readonly<Record<string, string | MadeEntry>>

/** A real runner in a folder of its own, without a queue. */
export async function openBuilder({
  limits = {},
  caching = {},
  env = {},
  casDir,
  heirOf,
  reading = {},
}: {
  limits?: Partial<SandboxLimits>
  caching?: Partial<KeptLimits>
  env?: Record<string, string>
  /** Where the storage lies, when it is not in the builder's own folder. */
  casDir?: string
  /** A builder whose kept folders this one takes over. */
  heirOf?: Pick<Config, 'build'>
  /** Of the threads that read sources. */
  reading?: Partial<ThreadLimits>
} = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'plinth-runner-'))
  // the users of the builds have to pass through
  await chmod(folder, 0o711)
  const tools = inject('buildTools')
  const config = loadConfig({
    PLINTH_DATA_DIR: join(folder, 'data'),
    PLINTH_BUILD_TOOLCHAIN: tools.toolchain,
    PLINTH_BUILD_BWRAP: tools.bwrap,
    ...tools.registry,
    PLINTH_BUILD_MEMORY: '384m',
    PLINTH_BUILD_TIMEOUT: '40s',
    PLINTH_BUILD_SLOTS: '2',
    ...env,
  })
  const log = createLogger('test', 'silent')
  const cas = await openDiskCas(casDir ?? join(folder, 'cas'))
  const buildLogs = openDiskBuildLogs(join(folder, 'cas', 'logs'))
  if (heirOf) {
    await mkdir(config.build.dir, { recursive: true })
    await rename(join(heirOf.build.dir, 'caches'), join(config.build.dir, 'caches'))
  }
  const deps = await openBuildDeps({
    config,
    cas,
    buildLogs,
    log,
    readVariables: async () => noVariables,
    sandboxLimits: limits,
    keptLimits: caching,
    readingLimits: reading,
  })
  const { sandbox, slots, keptFolders } = deps

  return {
    config,
    cas,
    sandbox,
    slots,
    keptFolders,
    /** Builds these files, as the queue would have it built. */
    async build(
      files: BuildFiles | Buffer,
      options: {
        timeoutMs?: number
        signal?: AbortSignal
        input?: Partial<BuildInput>
        variables?: VariablesAnswer
        /** Of the site. */
        settings?: OwnSettings
        onPhase?: (phase: Phase) => void
      } = {},
    ) {
      const archive = files instanceof Buffer ? files : tarGz(Object.entries(files).map(([name, file]) => made(name, file)))
      const source = await cas.put(archive)
      const phases: Phase[] = []
      const deploy_id = options.input?.deploy_id ?? randomUUID()
      const build = { ...config.build, ...(options.timeoutMs ? { timeoutMs: options.timeoutMs } : {}) }
      const result = await runBuild(
        { ...deps, config: { build }, readVariables: async () => options.variables ?? noVariables },
        {
          deploy_id,
          run: { attempt: 0, run_id: 'r' },
          project_id: 'p',
          site_id: 's',
          source_sha256: source.sha256,
          storage_bytes: null,
          plan_title: 'Free',
          settings: overrideSettings(noSettings(), 'the site', options.settings ?? {}),
          trust: 'production',
          ...options.input,
        },
        {
          signal: options.signal ?? new AbortController().signal,
          onPhase(phase) {
            phases.push(phase)
            options.onPhase?.(phase)
          },
        },
      )
      const manifest = result.outcome === 'built' ? await readManifest(cas, result.manifest_sha256) : { files: [] }
      return {
        ...result,
        phases,
        error: result.outcome === 'failed' ? result.error : '',
        paths: manifest.files.map((file) => file.path),
        log: (await buildLogs.read(deploy_id, 0, 64 * 1024 * 1024)).bytes.toString('utf8'),
        read: async (path: string) => textOf(cas, manifest.files.find((file) => file.path === path)?.sha256 ?? ''),
      }
    },
    /** Workspaces that exist now. */
    leftovers: async () => (await readdir(config.build.dir)).filter((name) => name.startsWith('run-')),
    async [Symbol.asyncDispose]() {
      await deps[Symbol.asyncDispose]()
      await rm(folder, { recursive: true })
    },
  }
}

const made = (name: string, file: string | MadeEntry): MadeEntry =>
  typeof file === 'string' ? { name, data: file } : { ...file, name }

async function textOf(cas: Cas, sha256: string): Promise<string> {
  return (await (await cas.open(sha256))?.bytes())?.toString('utf8') ?? ''
}

/** A package whose build runs this program with Node. */
export const nodePackage = (program: string, rest: BuildFiles = {}): BuildFiles => ({
  'package.json': JSON.stringify({ name: 'test', version: '1.0.0', scripts: { build: 'node build.cjs' } }),
  'package-lock.json': JSON.stringify({
    name: 'test',
    version: '1.0.0',
    lockfileVersion: 3,
    requires: true,
    packages: { '': { name: 'test', version: '1.0.0' } },
  }),
  'build.cjs': program,
  ...rest,
})

/** A folder whose build runs this program with Node and installs nothing. Each start of npm takes a third of a second of a processor. */
export const nodeBuild = (program: string, rest: BuildFiles = {}): BuildFiles => ({
  'plinth.json': builtBy('node build.cjs'),
  'build.cjs': program,
  ...rest,
})

/** A program that writes these files, each holding its own path. */
export const writes = (...paths: string[]) =>
  `const fs = require('node:fs'), path = require('node:path');
  for (const file of ${JSON.stringify(paths)}) { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.writeFileSync(file, file) };`

/** Processes anywhere on this machine whose command line holds the marker. */
export async function processesWith(marker: string): Promise<string[]> {
  const found: string[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (line.includes(marker)) found.push(`${pid} ${line.replaceAll('\0', ' ')}`)
  }
  return found
}
