import { createHash } from 'node:crypto'
import { execa } from 'execa'
import { listTree, type Tree } from './tree-listing.ts'

/** A digest over the listing of a folder's whole content, different after every change. */
export interface Sealed {
  readonly seal: string
  /** The disk space of the folder. */
  readonly bytes: number
}

/** The disk space of a name, besides the content of its file. */
const bytesPerName = 1024

/**
 * Seals a folder that no process writes to. Undefined when it is too large, has anything but files, folders and links, or has a file with a
 * hard link elsewhere, through which it could still be changed.
 */
export async function sealFolder(
  folder: string,
  { maxBytes, maxFiles }: { readonly maxBytes: number; readonly maxFiles: number },
): Promise<Sealed | undefined> {
  // without a user of its own a build could hide folders from what lists them
  if (process.getuid?.() !== 0) await execa('chmod', ['-R', 'u+rwX', '--', folder], { reject: false })
  const tree = await listAsRunner(folder)
  if (!tree || tree.size > maxFiles || !isSelfContained(tree)) return undefined
  const bytes = [...tree.values()].reduce((sum, entry) => sum + entry.bytes + bytesPerName, 0)
  return bytes > maxBytes ? undefined : { seal: digestOf(tree), bytes }
}

/** Whether a folder still matches its seal. */
export async function fitsSeal(folder: string, seal: string): Promise<boolean> {
  const tree = await listAsRunner(folder)
  return tree !== undefined && digestOf(tree) === seal
}

const listAsRunner = (folder: string) => listTree(folder, { uid: undefined })

/** Whether a tree has only files, folders and links, and no file with a hard link elsewhere. */
function isSelfContained(tree: Tree): boolean {
  const found = new Map<string, number>()
  for (const { inode } of tree.values()) found.set(inode, (found.get(inode) ?? 0) + 1)
  return [...tree.values()].every(
    ({ type, inode, names }) => type === 'd' || type === 'l' || (type === 'f' && found.get(inode) === names),
  )
}

/** A line that differs after every change of a file, because it has the kernel's change time and the inode. */
function digestOf(tree: Tree): string {
  const hash = createHash('sha256')
  for (const path of [...tree.keys()].sort()) hash.update(`${path}\0${tree.get(path)?.state}\0`)
  return hash.digest('hex')
}
