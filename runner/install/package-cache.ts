import { join } from 'node:path'
import type { PackageManager } from '../../core/build-plan.ts'
import { giveTo, isRealFolder } from '../sandbox/hostile-tree.ts'
import type { Slot } from '../sandbox/slots.ts'
import type { Workspace } from '../sandbox/workspace.ts'
import type { KeptFolders, KeptKey } from './kept-folders.ts'
import { packagesFolder } from './manager-environment.ts'

/** The packages that a build installs: builds with the same request share their downloads. */
export interface CacheRequest extends Pick<KeptKey, 'project_id' | 'trust'> {
  readonly lockSha256: string
  readonly packageManager: PackageManager
  /** Names and versions of Node and the package manager. */
  readonly tools: string
}

/** The packages of one build, in its home folder. */
export interface PackageCache {
  /** Whether they come from an earlier build. */
  readonly isWarm: boolean
  /**
   * Puts what the install has fetched out of the build's reach, for the next one. To be called between the install and the build, when no
   * process runs: what the build's own program writes into its home folder is then handed on to nobody.
   */
  setAside(): Promise<void>
}

/** Restores the downloads of an earlier build with the same request into the home folder. */
export async function takePackages(
  folders: KeptFolders,
  { lockSha256, packageManager, tools, ...owner }: CacheRequest,
  workspace: Workspace,
  slot: Slot,
): Promise<PackageCache> {
  const key = { ...owner, purpose: `packages ${lockSha256} ${tools}` }
  const inHome = join(workspace.home, packagesFolder)
  const isWarm = await folders.take(key, inHome)
  if (isWarm) await giveTo(inHome, slot)
  return { isWarm, setAside }

  async function setAside(): Promise<void> {
    if (!(await isRealFolder(workspace.home, packagesFolder))) return
    await folders.put(key, inHome, { leave: runsFromDownloads(packageManager) })
  }
}

/**
 * Whether a build reads the downloads themselves. Later versions of Yarn load packages from the archives in their cache; npm, pnpm and Yarn 1 unpack or
 * copy them into node_modules, as the source and the home folder are two mounts, between which there are no hard links.
 */
const runsFromDownloads = (manager: PackageManager) => manager.startsWith('yarn-') && manager !== 'yarn-1'
