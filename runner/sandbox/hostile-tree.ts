import { chmod, lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Slot } from './slots.ts'
import type { Workspace } from './workspace.ts'

/** The errors of system calls on a tree that a build has made inaccessible, removed, or replaced by links. They never mean a full disk or too few handles. */
const treeCodes: ReadonlySet<string> = new Set([
  'EACCES',
  'EPERM',
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'ENOTEMPTY',
  'EEXIST',
  'ELOOP',
  'EXDEV',
  'EINVAL',
  'ENXIO',
  'ENODEV',
  'EBUSY',
  'ETXTBSY',
  'EMLINK',
  'EFBIG',
  'EOVERFLOW',
  'ENAMETOOLONG',
])

/**
 * Lets the build's user, and so the next command and the collector, into the folders that the sandbox has mounted. A build can shut them,
 * but not put anything else in their place. To be called while none of its processes run.
 */
export async function reopenFolders({ source, home }: Pick<Workspace, 'source' | 'home'>): Promise<void> {
  for (const folder of [source, home]) await chmod(folder, 0o700)
}

/** Describes an error that comes from the tree of a build; undefined for every other error. */
export function explainTreeError(error: unknown, { root }: Pick<Workspace, 'root'>): string | undefined {
  const { code = '', path = '' } = error as NodeJS.ErrnoException
  const isOfTree = path.startsWith(`${root}/`) || path.startsWith('/proc/self/fd/')
  if (!treeCodes.has(code) || !isOfTree) return undefined
  return `what the build has left in its folder cannot be read (${code}); write the output to a folder of plain files, and leave its permissions alone`
}

/** Whether every part of a relative path is a real folder, not a link to one. */
export async function isRealFolder(root: string, path: string): Promise<boolean> {
  let folder = root
  for (const segment of path.split('/')) {
    folder = join(folder, segment)
    const stats = await lstat(folder).catch(() => undefined)
    if (!stats?.isDirectory()) return false
  }
  return true
}

/** Makes the user of a slot the owner of a tree. Links are given away themselves, never what they point to. */
export async function giveTo(path: string, { uid }: Slot): Promise<void> {
  if (uid === undefined || (await lstat(path)).uid === uid) return
  await execa('chown', ['-R', '-h', '-P', '--', `${uid}:${uid}`, path])
}
