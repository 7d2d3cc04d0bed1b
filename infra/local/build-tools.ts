import { chmod, copyFile, mkdir, rename } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { execa } from 'execa'
import type { Config } from '../config.ts'
import { openToolchain, toolchainOptions } from '../toolchain/toolchain.ts'
import { isSearchableByAll } from './service-user.ts'
import { type FindToolOptions, findTool } from './tools.ts'

const defaultRegistries = [
  'https://registry.npmjs.org/',
  'https://registry.yarnpkg.com/',
  'https://pypi.org/',
  'https://files.pythonhosted.org/',
]

/**
 * Completes the settings of builds: a toolchain where the build users can reach it, and which hosts builds may reach.
 * @param place the folder for what other users must reach
 * @param preparing the path of bubblewrap
 */
export async function prepareBuildTools(
  config: Config,
  place: string,
  preparing: Promise<string>,
  options: FindToolOptions,
): Promise<Config['build']> {
  const inPlace = (path: string) => (path.startsWith(`${config.dataDir}/`) ? join(place, relative(config.dataDir, path)) : path)
  const [npmSettings, bwrap, toolchainDir] = await Promise.all([
    readNpmSettings(config, config.dataDir),
    preparing,
    prepareToolchain(config, inPlace(config.build.toolchainDir), options),
  ])
  const { build } = config
  return {
    ...build,
    dir: inPlace(build.dir),
    toolchainDir,
    bwrap,
    egressHosts: build.egressHosts ?? npmSettings.hosts,
    caFile: build.caFile ?? npmSettings.caFile,
  }
}

/** The registries of this machine's npm configuration, and the certificates that it trusts. Nothing secret is read. */
export async function readNpmSettings(config: Config, cwd: string): Promise<{ hosts: string[]; caFile: string | undefined }> {
  const [npm, ...args] = config.npm
  const { stdout } = await execa(npm, [...args, 'config', 'list', '--json'], { cwd })
  const settings = JSON.parse(stdout) as Record<string, unknown>
  const configured = Object.entries(settings).flatMap(([name, value]) => (/^(@.*:)?registry$/.test(name) ? [String(value)] : []))
  const hosts = [...configured, ...defaultRegistries].flatMap((url) => URL.parse(url)?.hostname ?? [])
  const { cafile } = settings
  return { hosts: [...new Set(hosts)], caFile: typeof cafile === 'string' ? cafile : config.inherited.NODE_EXTRA_CA_CERTS }
}

/** The path of bubblewrap where the build users can reach it. */
export async function prepareBubblewrap(config: Config, place: string, options: FindToolOptions): Promise<string> {
  if (config.build.bwrap !== 'bwrap') return config.build.bwrap
  let file: string
  try {
    file = await findTool('bwrap', options)
  } catch (error) {
    if (config.build.sandbox === 'required') throw error
    return config.build.bwrap
  }
  if (process.getuid?.() !== 0 || (await isSearchableByAll(dirname(file)))) return file
  const copy = join(place, 'bin', 'bwrap')
  await mkdir(dirname(copy), { recursive: true })
  await copyFile(file, `${copy}.new`)
  await chmod(`${copy}.new`, 0o755)
  await rename(`${copy}.new`, copy)
  return copy
}

/**
 * Installs Node 20 and answers the folder of the toolchain, to which the runner adds what builds ask for: the cache, or `wanted` when
 * the build users cannot reach that.
 */
async function prepareToolchain(config: Config, wanted: string, { report, signal }: FindToolOptions): Promise<string> {
  const { cacheDir, npm } = toolchainOptions(config)
  const request = { report, ...(signal && { signal }) }
  await openToolchain({ dir: cacheDir, cacheDir, npm }).get('node-20', request)
  if (process.getuid?.() !== 0 || (await isSearchableByAll(cacheDir))) return cacheDir
  await openToolchain({ dir: wanted, cacheDir, npm }).get('node-20', request)
  return wanted
}
