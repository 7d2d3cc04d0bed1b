import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { lockFiles, type NodeMajor, type PackageManager } from '../../core/build-plan.ts'
import { foldersUpwards } from '../../core/root-dir.ts'
import { pinnedManagers, pinnedNode } from '../../infra/toolchain/versions.ts'

export interface InstallPlan {
  readonly node: NodeMajor
  readonly packageManager: PackageManager
  readonly install: readonly string[]
  /** The folder of the lock file, with a trailing slash; the root is empty. */
  readonly installFolder: string
  readonly lockName: string | undefined
  /** The whole environment of the install. */
  readonly environment: Readonly<Record<string, string>>
}

const MiB = 1024 * 1024
const maxLockBytes = 32 * MiB
/** Settings that managers look for in a folder and those above it. */
const settings = ['.npmrc', '.yarnrc.yml', 'pnpm-workspace.yaml']
/** Files that take part in an install and may read further files. */
const programs = ['.pnpmfile.cjs', '.pnpmfile.mjs', '.yarnrc', 'binding.gyp']
const ownScript = /^(?:pre|post)?(?:install|prepare|dependencies)$|^prepublish$|^pnpm:/
/** Dependencies that are in the source, or are made from it. */
const local = /(?:^|[\s'"(@])(?:file|link|workspace|portal|exec):|"link"\s*:\s*true/m
const localInYarnLock = /@(?:\.{0,2}|~)\//
/** Plugins that are built into Yarn need no file. */
const patched = /patchedDependencies|patch:(?![^",#:\n]{0,300}#(?:optional!|~)?builtin<)/
/** Settings that name programs, files or other places. */
const farReaching: Readonly<Record<string, RegExp>> = {
  '.npmrc': settingOf(
    'node.options|script.shell|shell|git|userconfig|globalconfig|prefix|modules.dir|virtual.store.dir|install.links|workspaces?|(?:global.)?pnpmfile',
  ),
  '.yarnrc.yml': settingOf('yarnPath|plugins|nmMode|cacheFolder|globalFolder|virtualFolder'),
  'pnpm-workspace.yaml': settingOf('packages|(?:globalP|p)npmfile|modulesDir|virtualStoreDir|nodeOptions|scriptShell'),
}

/** The managers disagree on line endings, so every possible one counts. */
function settingOf(names: string): RegExp {
  return new RegExp(`(?:^|[\\r\\n\\u2028\\u2029])[^\\S\\r\\n\\u2028\\u2029]*["']?(?:${names})(?:\\[\\])?["']?\\s*[=:]`, 'i')
}

/**
 * Hashes everything that decides the result of an install: two sources with the same hash get the same packages. Undefined when the result
 * may depend on more of the source, so that only an install can tell.
 * @param paths the paths of all files below `root`
 * @param folder the folder to build, with a trailing slash; the root is empty
 */
export async function nameInstall(
  root: string,
  paths: ReadonlySet<string>,
  folder: string,
  plan: InstallPlan,
): Promise<string | undefined> {
  const { installFolder, lockName } = plan
  if (lockName === undefined) return undefined
  const folders = foldersUpwards(folder)
  if (folders.some((at) => programs.some((name) => paths.has(at + name)))) return undefined
  for (const path of paths) if (path.startsWith(`${installFolder}.yarn/`)) return undefined

  const hash = createHash('sha256')
    .update(JSON.stringify([toolsOf(plan), plan.install, installFolder, folder]))
    .update(JSON.stringify(Object.entries(plan.environment).sort()))
  for (const at of folders) {
    for (const name of ['package.json', ...settings, ...lockFiles]) {
      if (!paths.has(at + name)) continue
      const path = join(root, at, name)
      if ((await stat(path)).size > (name === lockName ? maxLockBytes : MiB)) return undefined
      const bytes = await readFile(path)
      if (dependsOnMore(name, bytes.toString('utf8'))) return undefined
      hash.update(JSON.stringify([at + name, bytes.length])).update(bytes)
    }
  }
  return hash.digest('hex')
}

function dependsOnMore(name: string, text: string): boolean {
  if (name === 'package.json') return local.test(text) || hasOwnPart(text)
  if (name === 'yarn.lock')
    return patched.test(text) || localInYarnLock.test(text) || local.test(text.replaceAll('@workspace:."', ''))
  return farReaching[name]?.test(text) ?? (local.test(text) || patched.test(text))
}

/** Whether the project itself has a script that an install runs, or is several packages. */
function hasOwnPart(packageJson: string): boolean {
  try {
    const { scripts, workspaces } = JSON.parse(packageJson.replace(/^\uFEFF/, '')) as Record<string, unknown>
    return workspaces !== undefined || Object.keys(scripts ?? {}).some((name) => ownScript.test(name))
  } catch {
    return true
  }
}

function toolsOf({ node, packageManager }: InstallPlan): string[] {
  const { release, npm } = pinnedNode(node, process.arch === 'arm64' ? 'arm64' : 'x64')
  const manager = packageManager === 'npm' ? npm : pinnedManagers[packageManager]
  return [release.name, manager.name]
}
