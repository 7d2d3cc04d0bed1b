import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Slot } from './slots.ts'
import { measureTree } from './watch.ts'
import { packagesFolder, removeTree, type Workspace, workspacePrefix } from './workspace.ts'

const MiB = 1024 * 1024

export interface CacheLimits {
  /** Of one cache. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** Of all together; the least recently used go first. */
  readonly totalBytes: number
  /** Caches that one project may keep. */
  readonly perProject: number
}

const defaultLimits: CacheLimits = { maxBytes: 1024 * MiB, maxFiles: 150_000, totalBytes: 10 * 1024 * MiB, perProject: 8 }

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

/**
 * Downloads that builds of one project with one lock file hand on. A cache is one folder that is moved: it is in a build's hands, or
 * nobody can reach it. What a build leaves is hostile and only ever renamed, measured, given away and removed.
 */
export interface PackageCaches {
  /** Moves a cache into the workspace, if there is one that no other build has. */
  take(request: CacheRequest, workspace: Workspace, slot: Slot): Promise<PackageCache>
}

/** Removes what a killed runner has left, and caches beyond the limits. */
export async function openPackageCaches(buildDir: string, limits: Partial<CacheLimits> = {}): Promise<PackageCaches> {
  const { maxBytes, maxFiles, totalBytes, perProject } = { ...defaultLimits, ...limits }
  const root = join(buildDir, 'caches')
  await mkdir(root, { recursive: true })
  await chmod(root, 0o700)
  await trim()

  return {
    async take(request, workspace, slot) {
      const project = join(root, folderName(request.project_id))
      const key = folderName(`${request.lockSha256} ${request.tools}`)
      const inHome = join(workspace.home, packagesFolder)
      const isWarm = await bring()
      return { isWarm, keep }

      async function bring(): Promise<boolean> {
        const [name] = await namesOf(project, key)
        if (name === undefined || !(await moved(join(project, name), inHome))) return false
        await giveTo(inHome, slot)
        return true
      }

      async function keep(): Promise<void> {
        if (!(await isFolder(inHome))) return
        // without a user of its own a build could hide folders from what measures and moves them
        if (slot.uid === undefined) await execa('chmod', ['-R', 'u+rwX', '--', inHome], { reject: false })
        const size = await measureTree(inHome, { maxBytes, maxFiles })
        if (size.bytes > maxBytes || size.files > maxFiles) return
        await mkdir(project, { recursive: true, mode: 0o700 })
        for (const name of await namesOf(project, key)) await discard(join(project, name))
        const kept = join(project, `${key}.${size.bytes}`)
        if (!(await moved(inHome, kept))) return
        await utimes(kept, new Date(), new Date())
        await trim(project)
      }
    },
  }

  /** Removes the least recently used caches beyond the limits, and what is none. */
  async function trim(changed?: string): Promise<void> {
    const caches: { path: string; bytes: number; usedMs: number }[] = []
    for (const project of await readdir(root)) {
      for (const name of await readdir(join(root, project)).catch(() => [])) {
        const path = join(root, project, name)
        const [, bytes] = /^[0-9a-f]{32}\.(\d+)$/.exec(name) ?? []
        const stats = await stat(path).catch(() => undefined)
        if (stats) caches.push({ path, bytes: Number(bytes ?? Number.POSITIVE_INFINITY), usedMs: stats.mtimeMs })
      }
    }
    let total = 0
    let ofProject = 0
    for (const { path, bytes } of caches.sort((a, b) => b.usedMs - a.usedMs)) {
      const isOfProject = changed !== undefined && path.startsWith(`${changed}/`)
      if (isOfProject) ofProject++
      if (total + bytes > totalBytes || (isOfProject && ofProject > perProject)) await discard(path)
      else total += bytes
    }
  }

  /** Under a name that is removed at the next start, should this one not finish it. */
  async function discard(path: string): Promise<void> {
    const doomed = join(buildDir, `${workspacePrefix}cache-${randomBytes(6).toString('hex')}`)
    if (await moved(path, doomed)) await removeTree(doomed)
  }
}

/** Fit for a file system, whatever the text. */
const folderName = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 32)

const namesOf = (project: string, key: string) =>
  readdir(project).then(
    (names) => names.filter((name) => name.startsWith(`${key}.`)),
    () => [] as string[],
  )

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isDirectory() ?? false
}

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

/** To the user of this slot; links are given away themselves, never what they point to. */
async function giveTo(folder: string, { uid }: Slot): Promise<void> {
  if (uid === undefined || (await lstat(folder)).uid === uid) return
  await execa('chown', ['-R', '-h', '-P', '--', `${uid}:${uid}`, folder])
}
