import { createHash, createHmac, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { readableLevels, type TrustLevel } from '../../core/build-trust.ts'
import type { Slot } from '../sandbox/slots.ts'
import { removeTree, workspacePrefix } from '../sandbox/workspace.ts'
import { listTree, type Tree } from './tree-listing.ts'

const MiB = 1024 * 1024

export interface KeptLimits {
  /** Of one folder. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** Of all together. The project that holds most gives its least recently used folder up first. */
  readonly totalBytes: number
  /** Of all that one project keeps. */
  readonly projectBytes: number
  /** Folders that one project may keep. */
  readonly perProject: number
  /** What a folder counts for at least, so that many small ones are bounded too. */
  readonly leastBytes: number
}

const defaultLimits: KeptLimits = {
  maxBytes: 1024 * MiB,
  maxFiles: 150_000,
  totalBytes: 10 * 1024 * MiB,
  projectBytes: 2560 * MiB,
  perProject: 16,
  leastBytes: 4 * MiB,
}
/** A name takes room of the disk beside what is in its file. */
const bytesPerName = 1024
const copyTimeoutMs = 60_000

/** What a folder is for; another project, level of trust or purpose never meets it. */
export interface KeptKey {
  readonly project_id: string
  /** Of the build that takes or puts. */
  readonly trust: TrustLevel
  readonly purpose: string
}

export interface KeptUsage {
  readonly folders: number
  readonly bytes: number
  /** Bytes of the project that holds most. */
  readonly largestShare: number
}

/**
 * Folders that builds of one project hand on. A folder is moved or copied whole: what a build has in its hands nobody else can reach, and
 * what is half done is never found. What a build leaves in one is hostile and only ever renamed, listed, copied, given away and removed.
 * Each has a seal, a digest over the listing of all that is in it, made when it was set aside; a folder that does not fit its seal is
 * removed instead of being restored.
 */
export interface KeptFolders {
  /**
   * Brings a folder of the build's own level, by moving it, or else a copy of one that a more trusted level has set aside, to a path where
   * there is none. False when none is kept, another build has it, or it is not as it was set aside.
   */
  take(key: KeptKey, to: string): Promise<boolean>
  /**
   * Sets a folder aside, in the place of an earlier one. Only when no process of the build runs. Nothing happens when it is too large,
   * holds what is no file, folder or link, or shares a file with what lies outside of it, as that file could still be changed there.
   * @param leave copies it, for a build that goes on to read it
   */
  put(key: KeptKey, from: string, options?: { readonly leave?: boolean }): Promise<void>
  usage(): Promise<KeptUsage>
}

interface KeptFolder {
  readonly project: string
  readonly path: string
  readonly bytes: number
  readonly usedMs: number
}

/** Removes what a killed runner has left, and folders beyond the limits. */
export async function openKeptFolders(buildDir: string, wanted: Partial<KeptLimits> = {}): Promise<KeptFolders> {
  const limits = { ...defaultLimits, ...wanted }
  const root = join(buildDir, 'caches')
  await mkdir(root, { recursive: true })
  await chmod(root, 0o700)
  const secret = await nameSecret(join(root, 'key'))
  /** Folders that are being copied, which nobody moves away: another build's user would get at them. */
  const copied = new Map<string, number>()
  await trim()

  return {
    async take({ project_id, trust, purpose }, to) {
      for (const level of readableLevels(trust)) {
        const folder = join(root, nameOf(project_id))
        const [name] = await namesOf(folder, nameOf(`${level} ${purpose}`))
        if (name === undefined) continue
        const kept = join(folder, name)
        const isOwn = level === trust && !copied.has(kept)
        if (isOwn ? (await moved(kept, to)) && (await isAsSealed(to, name)) : await copyKept(kept, name, to)) return true
        await removeTree(to)
      }
      return false
    },
    async put({ project_id, trust, purpose }, from, { leave = false } = {}) {
      if (!readableLevels(trust).includes(trust)) return
      let sealed = await sealOf(from)
      if (!sealed) return
      const copy = doomedPath()
      try {
        if (leave) sealed = (await copyTree(from, copy)) ? await sealOf(copy) : undefined
        if (!sealed) return
        const project = join(root, nameOf(project_id))
        const key = nameOf(`${trust} ${purpose}`)
        await mkdir(project, { recursive: true, mode: 0o700 })
        for (const name of await namesOf(project, key)) await discard(join(project, name))
        const kept = join(project, `${key}.${sealed.bytes}.${sealed.seal}`)
        if (!(await moved(leave ? copy : from, kept))) return
        await utimes(kept, new Date(), new Date())
      } finally {
        if (leave) await removeTree(copy)
      }
      await trim()
    },
    usage: async () => usageOf(sharesOf(await listKept())),
  }

  /** The name on the disk of a text: who reads it learns nothing of the text, also when there are few that it can be. */
  function nameOf(text: string): string {
    return createHmac('sha256', secret).update(text).digest('hex').slice(0, 32)
  }

  /** Undefined when the folder is not one to keep. */
  async function sealOf(folder: string): Promise<{ seal: string; bytes: number } | undefined> {
    // without a user of its own a build could hide folders from what lists them
    if (process.getuid?.() !== 0) await execa('chmod', ['-R', 'u+rwX', '--', folder], { reject: false })
    const tree = await listTree(folder, { uid: undefined })
    if (!tree || tree.size > limits.maxFiles || !isSelfContained(tree)) return undefined
    const bytes = sum([...tree.values()].map((entry) => entry.bytes + bytesPerName))
    return bytes > limits.maxBytes ? undefined : { seal: digestOf(tree), bytes: Math.max(bytes, limits.leastBytes) }
  }

  async function isAsSealed(folder: string, name: string): Promise<boolean> {
    const tree = await listTree(folder, { uid: undefined })
    return tree !== undefined && name.endsWith(`.${digestOf(tree)}`)
  }

  /** Whole, or false: a folder that was discarded in between does not fit its seal any more. */
  async function copyKept(kept: string, name: string, to: string): Promise<boolean> {
    copied.set(kept, (copied.get(kept) ?? 0) + 1)
    try {
      if (!(await copyTree(kept, to)) || !(await isAsSealed(kept, name))) return false
      await utimes(kept, new Date(), new Date()).catch(() => undefined)
      return true
    } finally {
      const others = (copied.get(kept) ?? 1) - 1
      if (others === 0) copied.delete(kept)
      else copied.set(kept, others)
    }
  }

  /** Removes folders until every limit holds, and publishes what is left. */
  async function trim(): Promise<void> {
    const kept = (await listKept()).sort((a, b) => a.usedMs - b.usedMs)
    for (;;) {
      const shares = sharesOf(kept)
      const over = projectOver(shares)
      if (over === undefined) return await publishUsage(usageOf(shares))
      const [oldest] = kept.splice(
        kept.findIndex(({ project }) => project === over),
        1,
      )
      if (oldest) await discard(oldest.path)
    }
  }

  /** The project that has to give a folder up: one above its share, or the one with the largest when all hold too much. */
  function projectOver(shares: ReadonlyMap<string, Share>): string | undefined {
    const bySize = [...shares].sort(([, a], [, b]) => b.bytes - a.bytes)
    const own = bySize.find(([, { bytes, folders }]) => bytes > limits.projectBytes || folders > limits.perProject)
    const over = own ?? (sum(bySize.map(([, { bytes }]) => bytes)) > limits.totalBytes ? bySize[0] : undefined)
    return over?.[0]
  }

  /** For the textfile collector of a node exporter, beside `status.json`. */
  async function publishUsage({ folders, bytes, largestShare }: KeptUsage): Promise<void> {
    const figures = { folders, bytes, largest_share_bytes: largestShare }
    const lines = Object.entries(figures).map(
      ([name, value]) => `# TYPE plinth_kept_${name} gauge\nplinth_kept_${name} ${value}\n`,
    )
    const file = join(buildDir, 'kept.prom')
    await writeFile(`${file}.tmp`, lines.join(''))
    await rename(`${file}.tmp`, file)
  }

  async function listKept(): Promise<KeptFolder[]> {
    const found: KeptFolder[] = []
    for (const project of await readdir(root)) {
      for (const name of await readdir(join(root, project)).catch(() => [])) {
        const path = join(root, project, name)
        const [, bytes] = /^[0-9a-f]{32}\.(\d+)\.[0-9a-f]{64}$/.exec(name) ?? []
        if (bytes === undefined) await discard(path)
        const stats = bytes === undefined ? undefined : await stat(path).catch(() => undefined)
        if (stats) found.push({ project, path, bytes: Number(bytes), usedMs: stats.mtimeMs })
      }
    }
    return found
  }

  async function discard(path: string): Promise<void> {
    const doomed = doomedPath()
    if (await moved(path, doomed)) await removeTree(doomed)
  }

  /** What is there is removed at the next start, should this one not finish it. */
  function doomedPath(): string {
    return join(buildDir, `${workspacePrefix}cache-${randomBytes(6).toString('hex')}`)
  }
}

/** To the user of this slot; links are given away themselves, never what they point to. */
export async function giveTo(path: string, { uid }: Slot): Promise<void> {
  if (uid === undefined || (await lstat(path)).uid === uid) return
  await execa('chown', ['-R', '-h', '-P', '--', `${uid}:${uid}`, path])
}

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

async function copyTree(from: string, to: string): Promise<boolean> {
  const ended = await execa('cp', ['-a', '--reflink=auto', '-T', '--', from, to], {
    reject: false,
    timeout: copyTimeoutMs,
    stdio: 'ignore',
  })
  return !ended.failed
}

interface Share {
  bytes: number
  folders: number
}

function sharesOf(kept: readonly KeptFolder[]): Map<string, Share> {
  const shares = new Map<string, Share>()
  for (const { project, bytes } of kept) {
    const { bytes: held, folders } = shares.get(project) ?? { bytes: 0, folders: 0 }
    shares.set(project, { bytes: held + bytes, folders: folders + 1 })
  }
  return shares
}

function usageOf(shares: ReadonlyMap<string, Share>): KeptUsage {
  const all = [...shares.values()]
  const bytes = all.map((share) => share.bytes)
  return { folders: sum(all.map((share) => share.folders)), bytes: sum(bytes), largestShare: Math.max(0, ...bytes) }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

/** Of this folder alone; without it names made of secrets could be guessed. */
async function nameSecret(file: string): Promise<Buffer> {
  const found = await readFile(file).catch(() => undefined)
  if (found?.length === 32) return found
  const made = randomBytes(32)
  await writeFile(`${file}.tmp`, made, { mode: 0o600 })
  await rename(`${file}.tmp`, file)
  return made
}

const namesOf = (project: string, key: string) =>
  readdir(project).then(
    (names) => names.filter((name) => name.startsWith(`${key}.`)),
    () => [] as string[],
  )

/** False when another build was faster. */
async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}
