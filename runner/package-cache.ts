import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { giveTo, type KeptFolders, type KeptLimits, openKeptFolders } from './kept-folders.ts'
import type { Slot } from './slots.ts'
import { measureTree } from './watch.ts'
import { packagesFolder, type Workspace } from './workspace.ts'

/** What packages a build installs: those with the same request get each other's downloads. */
export interface CacheRequest {
  readonly project_id: string
  readonly lockSha256: string
  /** Names and versions of Node and the package manager. */
  readonly tools: string
}

/** The packages of one build, in its home folder. */
export interface PackageCache {
  /** Whether an earlier build has left them. */
  readonly isWarm: boolean
  /** Takes what is in the home folder now back for the next build. Only after every process of the build has ended. */
  keep(): Promise<void>
}

/** Downloads that builds of one project with one lock file hand on, and beside them what else they do. */
export interface PackageCaches {
  readonly folders: KeptFolders
  /** Moves a cache into the workspace, if there is one that no other build has. */
  take(request: CacheRequest, workspace: Workspace, slot: Slot): Promise<PackageCache>
}

export async function openPackageCaches(buildDir: string, limits: Partial<KeptLimits> = {}): Promise<PackageCaches> {
  const folders = await openKeptFolders(buildDir, limits)
  return {
    folders,
    async take({ project_id, lockSha256, tools }, workspace, slot) {
      const key = { project_id, purpose: `packages ${lockSha256} ${tools}` }
      const inHome = join(workspace.home, packagesFolder)
      const isWarm = await folders.take(key, inHome)
      if (isWarm) await giveTo(inHome, slot)
      return { isWarm, keep }

      async function keep(): Promise<void> {
        if (!(await lstat(inHome).catch(() => undefined))?.isDirectory()) return
        // without a user of its own a build could hide folders from what measures and moves them
        if (slot.uid === undefined) await execa('chmod', ['-R', 'u+rwX', '--', inHome], { reject: false })
        const { maxBytes, maxFiles } = folders.limits
        const size = await measureTree(inHome, { maxBytes, maxFiles })
        if (size.bytes <= maxBytes && size.files <= maxFiles) await folders.put(key, inHome, size.bytes)
      }
    },
  }
}
