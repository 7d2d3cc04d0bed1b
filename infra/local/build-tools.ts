import { chmod, copyFile, cp, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { execa } from 'execa'
import type { Config } from '../config.ts'
import { cachedToolchain, installNodeToolchain } from '../toolchain.ts'
import { isSearchableByAll } from './service-user.ts'
import { type FindToolOptions, findTool } from './tools.ts'

const defaultRegistries = ['https://registry.npmjs.org/', 'https://registry.yarnpkg.com/']

/**
 * Completes the settings of builds: bubblewrap, Node 20 and npm where the build users can reach them, and which hosts builds may reach.
 * @param place the folder for what other users must reach
 */
export async function prepareBuildTools(config: Config, place: string, options: FindToolOptions): Promise<Config['build']> {
  const inPlace = (path: string) => (path.startsWith(`${config.dataDir}/`) ? join(place, relative(config.dataDir, path)) : path)
  const [npmSettings, bwrap, toolchainDir] = await Promise.all([
    readNpmSettings(config),
    prepareBubblewrap(config, place, options),
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
async function readNpmSettings(config: Config): Promise<{ hosts: string[]; caFile: string | undefined }> {
  const [npm, ...args] = config.npm
  const { stdout } = await execa(npm, [...args, 'config', 'list', '--json'], { cwd: config.dataDir })
  const settings = JSON.parse(stdout) as Record<string, unknown>
  const configured = Object.entries(settings).flatMap(([name, value]) => (/^(@.*:)?registry$/.test(name) ? [String(value)] : []))
  const hosts = [...configured, ...defaultRegistries].flatMap((url) => URL.parse(url)?.hostname ?? [])
  const { cafile } = settings
  return { hosts: [...new Set(hosts)], caFile: typeof cafile === 'string' ? cafile : config.inherited.NODE_EXTRA_CA_CERTS }
}

async function prepareBubblewrap(config: Config, place: string, options: FindToolOptions): Promise<string> {
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

/** Installs into the cache once, and copies it to where the build users can reach it when they cannot reach the cache. */
async function prepareToolchain(config: Config, wanted: string, { cacheDir, report }: FindToolOptions): Promise<string> {
  const cached = cachedToolchain(cacheDir)
  await installNodeToolchain(cached, { npm: config.npm, report })
  if (process.getuid?.() !== 0 || (await isSearchableByAll(cached))) return cached
  const versions = (dir: string) => readFile(join(dir, 'versions'), 'utf8').catch(() => '')
  if ((await versions(wanted)) === (await versions(cached))) return wanted
  const temporary = `${wanted}.new`
  await rm(temporary, { recursive: true, force: true })
  await cp(cached, temporary, { recursive: true, verbatimSymlinks: true })
  await rm(wanted, { recursive: true, force: true })
  await rename(temporary, wanted)
  return wanted
}
