import { existsSync } from 'node:fs'
import { chown, mkdir, rename } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { execa } from 'execa'
import { giveTo, isRealFolder } from '../sandbox/hostile-tree.ts'
import type { Slot } from '../sandbox/slots.ts'
import type { Workspace } from '../sandbox/workspace.ts'
import type { KeptFolders, KeptKey } from './kept-folders.ts'
import { packagesFolder } from './manager-environment.ts'
import { listTree, type Tree, type TreeEntry } from './tree-listing.ts'

export interface InstallRequest extends Pick<KeptKey, 'project_id' | 'trust'> {
  /** The result of `nameInstall`. */
  readonly name: string
  /** The folder of the source that is the root inside the build. */
  readonly root: string
  /** The folder of the installed packages, with a trailing slash; the root is empty. */
  readonly folder: string
}

/** The installed packages of one build. */
export interface Install {
  /** The restored packages of an earlier build; undefined when the packages must be installed. */
  readonly restored: { readonly packages: number } | undefined
  /** To be called between the install and the build, when no process runs. */
  remember(): Promise<void>
  /**
   * Keeps the packages for the next build as the install has left them: files added since are removed, and if anything was changed,
   * nothing is kept. Only after every process of the build has ended.
   */
  keep(): Promise<void>
}

const modules = 'node_modules'
/** The paths that an install creates, below its folder. Yarn reads the second before it runs a script. */
const members = [modules, '.yarn/install-state.gz'] as const
/** The names that managers themselves write into node_modules. Other names with a dot are generated from the project, such as Prisma's client. */
const managerFiles =
  /^\.(?:bin|pnpm|package-lock\.json|package-map\.json|modules\.yaml|pnpm-workspace-state(?:-v\d+)?\.json|yarn-state\.yml|yarn-integrity)$/
const maxRemoved = 1000

/** Restores the packages of an earlier build with the same request, if no other build has them. */
export async function takeInstall(
  folders: KeptFolders,
  { name, root, folder, ...owner }: InstallRequest,
  workspace: Workspace,
  slot: Slot,
): Promise<Install> {
  const key = { ...owner, purpose: `install ${name}` }
  const at = (member: string) => folder + member
  /** The paths that exist, with their whole content. */
  let present: readonly string[] = []
  let installed: Tree | undefined
  const restored = await restore()
  const source = restored ? undefined : await listTree(root, slot)
  return { restored, remember, keep }

  async function restore(): Promise<Install['restored']> {
    const taken = join(workspace.root, 'restored-install')
    if (!(await folders.take(key, taken))) return undefined
    present = members.filter((member) => existsSync(join(taken, member)))
    for (const member of present) {
      const place = join(root, at(member))
      const made = await mkdir(dirname(place), { recursive: true, mode: 0o755 })
      if (made !== undefined && slot.uid !== undefined) await chown(made, slot.uid, slot.uid)
      await giveTo(join(taken, member), slot)
      await rename(join(taken, member), place)
    }
    installed = await listPresent()
    if (!installed) throw new Error('packages that an earlier build has installed cannot be listed')
    return { packages: packagesIn(installed) }
  }

  async function remember(): Promise<void> {
    const [now, home] = await Promise.all([listTree(root, slot), listTree(workspace.home, slot, ['.'], `./${packagesFolder}`)])
    if (!source || !now || !home) return
    const isKept = (path: string) => members.some((member) => path === at(member) || path.startsWith(`${at(member)}/`))
    const elsewhere = new Map([...now].filter(([path]) => !isKept(path) && path !== at('.yarn')))
    const packages = new Map([...now].filter(([path]) => isKept(path)))
    const wroteElsewhere = !isSame(source, elsewhere) || [...home.values()].some(({ type }) => type !== 'd')
    if (wroteElsewhere || !isPortable(packages, at(modules))) return
    installed = packages
    present = members.filter((member) => packages.has(at(member)))
  }

  /** Undefined when one of them is gone, or is behind a link. */
  async function listPresent(): Promise<Tree | undefined> {
    for (const member of present) if (!(await isRealFolder(root, dirname(at(member))))) return undefined
    return await listTree(root, slot, present.map(at))
  }

  async function keep(): Promise<void> {
    if (!installed) return
    const now = await listPresent()
    const added = now && addedSince(installed, now)
    if (!added || !(await remove(added))) return
    const parcel = join(workspace.root, 'kept-install')
    for (const member of present) {
      await mkdir(dirname(join(parcel, member)), { recursive: true, mode: 0o700 })
      await rename(join(root, at(member)), join(parcel, member))
    }
    await folders.put(key, parcel)
  }

  /** Removes as the build's user, who cannot remove more than the build could. */
  async function remove(paths: readonly string[]): Promise<boolean> {
    if (paths.length === 0) return true
    // names with other bytes would not be passed on unchanged
    if (paths.length > maxRemoved || !paths.every((path) => /^[\x20-\x7e]+$/.test(path))) return false
    const { uid } = slot
    const user = uid === undefined ? {} : { uid, gid: uid }
    const ended = await execa('rm', ['-rf', '--one-file-system', '--', ...paths], { cwd: root, ...user, reject: false })
    return !ended.failed
  }
}

/**
 * Whether packages work the same in another build's folder.
 * @param folder the `node_modules` with the packages
 */
function isPortable(packages: Tree, folder: string): boolean {
  if (packages.get(folder)?.type !== 'd') return false
  const isInside = (path: string) => path.startsWith(`${folder}/`)
  const found = new Map<string, number>()
  for (const { inode } of packages.values()) found.set(inode, (found.get(inode) ?? 0) + 1)
  return [...packages].every(([path, { type, target, inode, names }]) => {
    const parent = posix.basename(posix.dirname(path))
    const base = posix.basename(path)
    if (parent === modules && base.startsWith('.') && !managerFiles.test(base)) return false
    if (type === 'l') return !target.startsWith('/') && isInside(posix.join(posix.dirname(path), target))
    // a hard link elsewhere would be another way to change the file
    return type === 'd' || (type === 'f' && found.get(inode) === names)
  })
}

function isSame(before: Tree, after: Tree): boolean {
  return before.size === after.size && [...before].every(([path, entry]) => after.get(path)?.state === entry.state)
}

/** The topmost new paths; undefined when anything is gone or was changed. */
function addedSince(before: Tree, after: Tree): string[] | undefined {
  const isKept = ([path, { state }]: [string, TreeEntry]) => after.get(path)?.state === state
  if (![...before].every(isKept)) return undefined
  return [...after.keys()].filter((path) => !before.has(path) && before.has(posix.dirname(path)))
}

function packagesIn(tree: Tree): number {
  const description = /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/
  return [...tree.keys()].filter((path) => description.test(path)).length
}
