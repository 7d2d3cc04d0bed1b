import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Slot } from './slots.ts'

export interface Workspace extends AsyncDisposable {
  /** Names the build in process and cgroup lists. */
  readonly id: string
  /** Belongs to the runner; the build's user may pass through. */
  readonly root: string
  /** The source, and what the build makes of it; belongs to the build's user. */
  readonly source: string
  /** The home folder of the build's user, with the packages that are fetched. */
  readonly home: string
}

/** Of all that is removed at the next start, should this runner be killed. */
export const workspacePrefix = 'run-'
/** Of the home folder: where package managers keep what they fetch. */
export const packagesFolder = 'packages'

/** Makes the folders of one build; disposing removes them, whatever the build has put there. */
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
  return { id, root, source, home, [Symbol.asyncDispose]: () => removeTree(root) }
}

/** Removes the workspaces that an earlier runner has left in this folder. */
export async function removeLeftoverWorkspaces(buildDir: string): Promise<void> {
  const names = await readdir(buildDir)
  await Promise.all(names.filter((name) => name.startsWith(workspacePrefix)).map((name) => removeTree(join(buildDir, name))))
}

/** By `rm`, which walks trees deeper than the longest path and never follows a link. */
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
