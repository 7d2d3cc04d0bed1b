import { createHash } from 'node:crypto'
import { execa } from 'execa'
import { listTree, type Tree } from './tree-listing.ts'

/** A digest over the listing of all that is in a folder: another one after every change. */
export interface Sealed {
  readonly seal: string
  /** What the folder takes of the disk. */
  readonly bytes: number
}

/** A name takes room of the disk beside what is in its file. */
const bytesPerName = 1024

/**
 * Seals a folder that no process writes to. Undefined when it holds too much, anything but files, folders and links, or a file that has a
 * name elsewhere, where it could still be changed.
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

/** Whether a folder is as it was when it got this seal. */
export async function fitsSeal(folder: string, seal: string): Promise<boolean> {
  const tree = await listAsRunner(folder)
  return tree !== undefined && digestOf(tree) === seal
}

const listAsRunner = (folder: string) => listTree(folder, { uid: undefined })

/** Whether a tree holds nothing but files, folders and links, and no file of it has a name elsewhere. */
function isSelfContained(tree: Tree): boolean {
  const found = new Map<string, number>()
  for (const { inode } of tree.values()) found.set(inode, (found.get(inode) ?? 0) + 1)
  return [...tree.values()].every(
    ({ type, inode, names }) => type === 'd' || type === 'l' || (type === 'f' && found.get(inode) === names),
  )
}

/** Another one after every change of a file, as the kernel's time of change and the inode are in it. */
function digestOf(tree: Tree): string {
  const hash = createHash('sha256')
  for (const path of [...tree.keys()].sort()) hash.update(`${path}\0${tree.get(path)?.state}\0`)
  return hash.digest('hex')
}
