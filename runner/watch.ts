import { constants, type Dirent } from 'node:fs'
import { lstat, open, readdir, readFile, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

export interface TreeLimits {
  readonly maxBytes: number
  readonly maxFiles: number
}

/** Why a tree may not grow further: it is too large, or the disk that holds it is nearly full. */
type TreeProblem = 'over' | 'full'

const MiB = 1024 * 1024
const treePollMs = 200
const lookGapMs = 500
const memoryPollMs = 500
const pageBytes = 4096
/** What builds leave free of a disk: a twentieth of it, or this. */
const reservedBytes = 256 * MiB

/**
 * Calls `onProblem` once. Looks again after ten times the time that a look took, and at once when the disk has lost the room that
 * the tree had left: a tree that is slow to measure cannot outrun it.
 */
export function watchTree(folder: string, limits: TreeLimits, onProblem: (problem: TreeProblem) => void): Disposable {
  let due = performance.now() + lookGapMs
  let roomLeft = limits.maxBytes
  let freeThen = 0

  return poll(treePollMs, async () => {
    const { freeBytes, full } = await roomOf(folder)
    freeThen = Math.max(freeThen, freeBytes)
    const began = performance.now()
    if (began < due && !full && freeThen - freeBytes < roomLeft) return undefined
    const size = await measureTree(folder, limits)
    if (size.bytes > limits.maxBytes || size.files > limits.maxFiles) return () => onProblem('over')
    if (full) return () => onProblem('full')
    due = performance.now() + Math.max(lookGapMs, 10 * (performance.now() - began))
    roomLeft = limits.maxBytes - size.bytes
    freeThen = freeBytes
    return undefined
  })
}

/** Calls `onOver` once when the processes below `pid` hold more memory than allowed; stands in for a cgroup. */
export function watchMemory(pid: number, maxBytes: number, onOver: () => void): Disposable {
  return poll(memoryPollMs, async () => ((await residentBytes(pid)) > maxBytes ? onOver : undefined))
}

/** Whether the disk of this folder has no room left for builds. */
export async function isDiskFull(folder: string): Promise<boolean> {
  return (await roomOf(folder)).full
}

async function roomOf(folder: string): Promise<{ freeBytes: number; full: boolean }> {
  const disk = await statfs(folder)
  const freeBytes = disk.bavail * disk.bsize
  // file systems without a fixed number of files say 0
  const noFiles = disk.files > 0 && disk.ffree < disk.files / 100
  return { freeBytes, full: noFiles || freeBytes < Math.min(reservedBytes, (disk.blocks * disk.bsize) / 20) }
}

/** Calls what a look answers, and ends with that. A failed look counts as none: the folder is about to go. */
function poll(everyMs: number, look: () => Promise<(() => void) | undefined>): Disposable {
  const stopped = new AbortController()
  void loop()
  return { [Symbol.dispose]: () => stopped.abort() }

  async function loop(): Promise<void> {
    while (!stopped.signal.aborted) {
      await pause(everyMs, undefined, { signal: stopped.signal }).catch(() => undefined)
      if (stopped.signal.aborted) return
      const problem = await look().catch(() => undefined)
      if (!problem) continue
      if (!stopped.signal.aborted) problem()
      return
    }
  }
}

// a path may have 4096 bytes; a build can go deeper, folder by folder
const longPath = 3000
// more at once would keep the other builds' files waiting
const statsAtOnce = 64

/** Counts until a limit is passed. What vanishes meanwhile does not count. */
export async function measureTree(root: string, limits: TreeLimits): Promise<{ bytes: number; files: number }> {
  let bytes = 0
  let files = 0
  const over = () => bytes > limits.maxBytes || files > limits.maxFiles
  await measureBelow(root)
  return { bytes, files }

  async function measureBelow(top: string): Promise<void> {
    const folders = [top]
    for (let folder = folders.pop(); folder !== undefined && !over(); folder = folders.pop()) {
      if (folder.length > longPath) await measureThroughDescriptor(folder)
      else folders.push(...(await measureFolder(folder)))
    }
  }

  async function measureThroughDescriptor(folder: string): Promise<void> {
    const opened = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => undefined)
    if (!opened) return
    await using handle = opened
    await measureBelow(`/proc/self/fd/${handle.fd}`)
  }

  /** Answers the folders in it. */
  async function measureFolder(folder: string): Promise<string[]> {
    const entries = await readdir(folder, { withFileTypes: true }).catch((): Dirent[] => [])
    files += entries.length
    const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(folder, entry.name))
    for (let at = 0; at < paths.length && !over(); at += statsAtOnce) {
      const sizes = await Promise.all(paths.slice(at, at + statsAtOnce).map(blocksOf))
      bytes += sizes.reduce((sum, size) => sum + size, 0)
    }
    return entries.filter((entry) => entry.isDirectory()).map((entry) => join(folder, entry.name))
  }
}

const blocksOf = (path: string) =>
  lstat(path).then(
    (stats) => stats.blocks * 512,
    () => 0,
  )

async function residentBytes(root: number): Promise<number> {
  const children = new Map<number, number[]>()
  const resident = new Map<number, number>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => undefined)
    // the program's name may hold spaces and brackets; the numbers start after the last bracket
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (!fields) continue
    const parent = Number(fields[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(name)])
    resident.set(Number(name), Number(fields[21]) * pageBytes)
  }
  const below = (pid: number): number =>
    (resident.get(pid) ?? 0) + (children.get(pid) ?? []).reduce((sum, child) => sum + below(child), 0)
  return below(root)
}
