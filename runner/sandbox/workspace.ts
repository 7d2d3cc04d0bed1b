import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { chown, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Slot } from './slots.ts'

export interface Workspace extends AsyncDisposable {
  /** Names the build in process and cgroup lists. */
  readonly id: string
  /** Belongs to the runner; the build's user may pass through. */
  readonly root: string
  /** The source and the output of the build; belongs to the build's user. */
  readonly source: string
  /** The home folder of the build's user, with the packages that are fetched. */
  readonly home: string
}

/** Of all that is removed at the next start, should this runner be killed. */
export const workspacePrefix = 'run-'

/** Makes the folders of one build; disposing removes them with any content. */
export async function openWorkspace(buildDir: string, slot: Slot): Promise<Workspace> {
  const id = `${workspacePrefix}${slot.index}-${randomBytes(6).toString('hex')}`
  const root = join(buildDir, id)
  const source = join(root, 'source')
  const home = join(root, 'home')
  await mkdir(root, { mode: 0o711 })
  for (const folder of [source, home]) {
    await mkdir(folder, { mode: 0o700 })
    if (slot.uid !== undefined) await chown(folder, slot.uid, slot.uid)
  }
  return {
    id,
    root,
    source,
    home,
    async [Symbol.asyncDispose]() {
      // Node leaves open what a thread was opening when it was ended, up to eight files each time
      for (const descriptor of openFilesBelow(root)) closeSync(descriptor)
      await removeTree(root)
    },
  }
}

/** Descriptors of this process whose file or folder lies below a folder; none where the system does not say. */
export function openFilesBelow(folder: string): number[] {
  if (!existsSync('/proc/self/fd')) return []
  const place = `${realpathSync(folder)}/`
  const lies = (descriptor: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(place)
    } catch {
      return false
    }
  }
  return readdirSync('/proc/self/fd').filter(lies).map(Number)
}

/** Removes the workspaces that an earlier runner has left in this folder. */
export async function removeLeftoverWorkspaces(buildDir: string): Promise<void> {
  const names = await readdir(buildDir)
  await Promise.all(names.filter((name) => name.startsWith(workspacePrefix)).map((name) => removeTree(join(buildDir, name))))
}

/** Removes with `rm`, which walks trees deeper than the longest path and never follows a link. */
export async function removeTree(path: string): Promise<void> {
  const remove = () => execa('rm', ['-rf', '--one-file-system', '--', path])
  try {
    await remove()
  } catch {
    // a build without a user of its own can leave folders that nobody may search
    await execa('chmod', ['-R', 'u+rwX', '--', path], { reject: false })
    await remove()
  }
}
