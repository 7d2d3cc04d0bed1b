import { execFile } from 'node:child_process'
import { chmod, copyFile, cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { noSettings } from '../core/build-settings.ts'
import { openDiskBuildLogs } from '../infra/build-logs/disk.ts'
import { openDiskCas } from '../infra/cas/disk.ts'
import { loadConfig } from '../infra/config.ts'
import { readNpmSettings } from '../infra/local/build-tools.ts'
import { findTool } from '../infra/local/tools.ts'
import { createLogger } from '../infra/log.ts'
import { openToolchain, toolchainOptions } from '../infra/toolchain/toolchain.ts'
import { runBuild } from '../runner/build.ts'
import { openBuildDeps } from '../runner/runner.ts'
import { median } from './statistics.ts'

// A build on the farm, the first of a project and the one after it, which gets the packages that the first has installed, against
// the bare commands with an empty npm cache on the same Node: from the archive in the storage to the manifest there, against
// `npm ci && npm run build` in a folder. In turns, so that what else the machine does hits all three, and every other round begins with
// the farm: a file system that has just lost many files is slow to make new ones (ext4 without a journal spends seconds on it).
//   npm run bench build -- [--project test/fixtures/generators/vite] [--rounds 5]

const run = promisify(execFile)
const { values } = parseArgs({
  options: {
    project: { type: 'string', default: join(import.meta.dirname, '..', 'test', 'fixtures', 'generators', 'vite') },
    rounds: { type: 'string', default: '5' },
  },
})
const { project } = values
const report = (line: string) => process.stdout.write(`${line}\n`)
const log = createLogger('bench', 'silent')

await using stack = new AsyncDisposableStack()
const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
stack.defer(() => rm(dir, { recursive: true, force: true }))
// the users of builds have to pass through
await chmod(dir, 0o711)
const machine = loadConfig()
const { hosts, caFile } = await readNpmSettings(machine, dir)
const bwrap = join(dir, 'bwrap')
await copyFile(await findTool('bwrap', { cacheDir: machine.cacheDir, report }), bwrap)
const config = loadConfig({
  ...process.env,
  PLINTH_DATA_DIR: dir,
  PLINTH_BUILD_BWRAP: bwrap,
  PLINTH_BUILD_EGRESS_HOSTS: hosts.join(),
  ...(caFile && { PLINTH_BUILD_CA_FILE: caFile }),
})
const node = await openToolchain(toolchainOptions(config)).get('node-20', { report })
const cas = await openDiskCas(join(dir, 'cas'))
const buildLogs = openDiskBuildLogs(join(dir, 'logs'))
const readVariables = async () => ({ values: {}, secrets: [] })
const deps = stack.use(await openBuildDeps({ config, cas, buildLogs, log, readVariables }))
const { sandbox } = deps
if (!sandbox.status.builds) throw new Error(`builds are refused: ${sandbox.status.problems.join('; ')}`)

await run('tar', ['-czf', join(dir, 'source.tgz'), '-C', project, '.'])
const source = await cas.put(await readFile(join(dir, 'source.tgz')))

const times = { bare: [] as number[], cold: [] as number[], warm: [] as number[] }
for (let round = 0; round < Number(values.rounds); round++) {
  const bare = async () => times.bare.push(await timed(buildBare))
  const cold = async () => times.cold.push(await timed(() => buildOnFarm(`p${round}`, 'cold')))
  for (const build of round % 2 === 0 ? [bare, cold] : [cold, bare]) await build()
  times.warm.push(await timed(() => buildOnFarm(`p${round}`, 'warm')))
}
for (const [name, all] of Object.entries(times)) report(`${name}: ${all.map((ms) => (ms / 1000).toFixed(2)).join(' ')} s`)
report(`cold / bare ${ratios(times.cold)}, at most 1.10`)
report(`warm / bare ${ratios(times.warm)}, at most 0.70`)

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** The registry's speed changes within minutes, so each round is compared with its own bare commands. */
function ratios(all: readonly number[]): string {
  const inRounds = all.map((ms, round) => ms / (times.bare[round] ?? Number.NaN))
  const best = Math.min(...all) / Math.min(...times.bare)
  return `${median(inRounds).toFixed(2)} (median of the rounds), ${best.toFixed(2)} (best of each)`
}

async function buildBare(): Promise<void> {
  const folder = await mkdtemp(join(dir, 'bare-'))
  try {
    await cp(project, join(folder, 'source'), { recursive: true })
    const env = {
      PATH: `${node}/bin:/usr/bin:/bin`,
      HOME: folder,
      CI: 'true',
      npm_config_audit: 'false',
      npm_config_fund: 'false',
      ...(caFile && { NODE_EXTRA_CA_CERTS: caFile, npm_config_cafile: caFile }),
    }
    // as builds on the farm yield to what else the machine does
    for (const args of [['ci'], ['run', 'build']])
      await run('nice', ['-n', '10', 'npm', ...args], { cwd: join(folder, 'source'), env })
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function buildOnFarm(projectId: string, kind: 'cold' | 'warm'): Promise<void> {
  const deploy_id = `${projectId}-${kind}`
  const phases: [string, number][] = []
  const input = {
    deploy_id,
    run: { attempt: 1, run_id: 'bench' },
    site_id: 'bench',
    plan_title: 'Bench',
    storage_bytes: null,
    settings: noSettings(),
    trust: 'production',
  } as const
  const result = await runBuild(
    deps,
    { ...input, project_id: projectId, source_sha256: source.sha256 },
    { signal: new AbortController().signal, onPhase: (phase) => phases.push([phase, performance.now()]) },
  )
  if (result.outcome !== 'built') throw new Error(result.outcome === 'failed' ? result.error : result.outcome)
  phases.push(['end', performance.now()])
  const said = (await buildLogs.read(deploy_id, 0, 1024 * 1024)).bytes.toString('utf8')
  if (said.includes('\nnode_modules restored') !== (kind === 'warm')) throw new Error(`this build was not ${kind}:\n${said}`)
  const lasted = phases.slice(1).map(([, at], i) => `${phases[i]?.[0]} ${((at - (phases[i]?.[1] ?? 0)) / 1000).toFixed(2)}`)
  report(`  ${lasted.join(', ')}`)
}
