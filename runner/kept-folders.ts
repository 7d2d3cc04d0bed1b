import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Slot } from './slots.ts'
import { removeTree, workspacePrefix } from './workspace.ts'

const MiB = 1024 * 1024

export interface KeptLimits {
  /** Of one folder. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** Of all together; the least recently used go first. */
  readonly totalBytes: number
  /** Folders that one project may keep. */
  readonly perProject: number
}

const defaultLimits: KeptLimits = { maxBytes: 1024 * MiB, maxFiles: 150_000, totalBytes: 10 * 1024 * MiB, perProject: 16 }

/** What a folder is for; another project or another purpose never meets it. */
export interface KeptKey {
  readonly project_id: string
  readonly purpose: string
}

/**
 * Folders that builds of one project hand on. A folder is moved, never copied: it is in one build's hands, or nobody can reach it, and
 * what is half done is never found. What a build leaves in one is hostile and only ever renamed, measured, given away and removed.
 */
export interface KeptFolders {
  readonly limits: Pick<KeptLimits, 'maxBytes' | 'maxFiles'>
  /** Moves the folder to a path where there is none; false when no folder is kept, or another build has it. */
  take(key: KeptKey, to: string): Promise<boolean>
  /** Moves a folder of this size here, in the place of an earlier one. */
  put(key: KeptKey, from: string, bytes: number): Promise<void>
}

/** Removes what a killed runner has left, and folders beyond the limits. */
export async function openKeptFolders(buildDir: string, wanted: Partial<KeptLimits> = {}): Promise<KeptFolders> {
  const limits = { ...defaultLimits, ...wanted }
  const root = join(buildDir, 'caches')
  await mkdir(root, { recursive: true })
  await chmod(root, 0o700)
  await trim()

  return {
    limits,
    async take({ project_id, purpose }, to) {
      const project = join(root, folderName(project_id))
      const [name] = await namesOf(project, folderName(purpose))
      return name !== undefined && (await moved(join(project, name), to))
    },
    async put({ project_id, purpose }, from, bytes) {
      const project = join(root, folderName(project_id))
      const key = folderName(purpose)
      await mkdir(project, { recursive: true, mode: 0o700 })
      for (const name of await namesOf(project, key)) await discard(join(project, name))
      const kept = join(project, `${key}.${bytes}`)
      if (!(await moved(from, kept))) return
      await utimes(kept, new Date(), new Date())
      await trim(project)
    },
  }

  /** Removes the least recently used folders beyond the limits, and what is none. */
  async function trim(changed?: string): Promise<void> {
    const folders: { path: string; bytes: number; usedMs: number }[] = []
    for (const project of await readdir(root)) {
      for (const name of await readdir(join(root, project)).catch(() => [])) {
        const path = join(root, project, name)
        const [, bytes] = /^[0-9a-f]{32}\.(\d+)$/.exec(name) ?? []
        const stats = await stat(path).catch(() => undefined)
        if (stats) folders.push({ path, bytes: Number(bytes ?? Number.POSITIVE_INFINITY), usedMs: stats.mtimeMs })
      }
    }
    let total = 0
    let ofProject = 0
    for (const { path, bytes } of folders.sort((a, b) => b.usedMs - a.usedMs)) {
      const isOfProject = changed !== undefined && path.startsWith(`${changed}/`)
      if (isOfProject) ofProject++
      if (total + bytes > limits.totalBytes || (isOfProject && ofProject > limits.perProject)) await discard(path)
      else total += bytes
    }
  }

  /** Under a name that is removed at the next start, should this one not finish it. */
  async function discard(path: string): Promise<void> {
    const doomed = join(buildDir, `${workspacePrefix}cache-${randomBytes(6).toString('hex')}`)
    if (await moved(path, doomed)) await removeTree(doomed)
  }
}

/** To the user of this slot; links are given away themselves, never what they point to. */
export async function giveTo(path: string, { uid }: Slot): Promise<void> {
  if (uid === undefined || (await lstat(path)).uid === uid) return
  await execa('chown', ['-R', '-h', '-P', '--', `${uid}:${uid}`, path])
}

/** Fit for a file system, whatever the text. */
const folderName = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 32)

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
