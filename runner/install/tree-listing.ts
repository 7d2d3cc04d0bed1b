import { execa } from 'execa'
import type { Slot } from '../sandbox/slots.ts'

export interface TreeEntry {
  /** The type as `find` prints it: `d` for a folder, `f` for a file, `l` for a link. */
  readonly type: string
  /** The target of a link; otherwise empty. */
  readonly target: string
  /** Differs after every change; for a folder, it does not cover the content. */
  readonly state: string
  readonly inode: string
  /** The number of names of the inode. */
  readonly names: number
  /** Its disk space. */
  readonly bytes: number
}

/** The entries by path, relative to the listed folder. Bytes that are not ASCII become one character each. */
export type Tree = ReadonlyMap<string, TreeEntry>

const format = '%y %m %U %i %s %n %C@ %b\\0%p\\0%l\\0'
const maxListingBytes = 64 * 1024 * 1024
const timeoutMs = 30_000

/**
 * Lists a hostile tree that no process writes to: by `find`, as the build's user, who follows no link.
 * @param starts paths relative to `folder`, of real folders and files
 * @param skipped a path whose content is not listed
 * @returns undefined when not everything can be listed
 */
export async function listTree(
  folder: string,
  { uid }: Pick<Slot, 'uid'>,
  starts: readonly string[] = ['.'],
  skipped = '',
): Promise<Tree | undefined> {
  const find = execa('find', ['-P', ...starts, '-path', skipped, '-prune', '-o', '-printf', format], {
    cwd: folder,
    ...(uid === undefined ? {} : { uid, gid: uid }),
    extendEnv: false,
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
    buffer: false,
    timeout: timeoutMs,
    reject: false,
  })
  const tree = new Map<string, TreeEntry>()
  let left = maxListingBytes
  let cut = ''
  // parsed as it arrives, so that a large tree does not block the event loop
  find.stdout.setEncoding('latin1')
  for await (const chunk of find.stdout as AsyncIterable<string>) {
    left -= chunk.length
    if (left < 0) break
    const fields = (cut + chunk).split('\0')
    const whole = fields.length - (fields.length % 3 || 3)
    for (let at = 0; at < whole; at += 3) {
      const [facts = '', path = '', target = ''] = fields.slice(at, at + 3)
      tree.set(path.replace(/^\.\//, ''), entryOf(facts, target))
    }
    cut = fields.slice(whole).join('\0')
  }
  const ended = await find
  return ended.failed || left < 0 ? undefined : tree
}

function entryOf(facts: string, target: string): TreeEntry {
  const [type = '', mode, uid, inode = '', size, names, changed, blocks] = facts.split(' ')
  const state = type === 'd' ? [mode, uid, inode] : [mode, uid, inode, size, names, changed, target]
  return { type, target, state: `${type} ${state.join(' ')}`, inode, names: Number(names), bytes: Number(blocks) * 512 }
}
