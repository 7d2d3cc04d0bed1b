import type { Dirent } from 'node:fs'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

export interface TreeLimits {
  readonly maxBytes: number
  readonly maxFiles: number
}

const pollMs = 500
const pageBytes = 4096

/** Calls `onOver` once when the tree grows beyond its limits. Looks again after ten times the time that a look took, or half a second. */
export function watchTree(folder: string, limits: TreeLimits, onOver: () => void): Disposable {
  return poll(async () => {
    const size = await measureTree(folder, limits)
    return size.bytes > limits.maxBytes || size.files > limits.maxFiles
  }, onOver)
}

/** Calls `onOver` once when the processes below `pid` hold more memory than allowed; stands in for a cgroup. */
export function watchMemory(pid: number, maxBytes: number, onOver: () => void): Disposable {
  return poll(async () => (await residentBytes(pid)) > maxBytes, onOver)
}

function poll(isOver: () => Promise<boolean>, onOver: () => void): Disposable {
  const stopped = new AbortController()
  void loop()
  return { [Symbol.dispose]: () => stopped.abort() }

  async function loop(): Promise<void> {
    let wait = pollMs
    while (!stopped.signal.aborted) {
      await pause(wait, undefined, { signal: stopped.signal }).catch(() => undefined)
      if (stopped.signal.aborted) return
      const began = performance.now()
      if (await isOver()) {
        if (!stopped.signal.aborted) onOver()
        return
      }
      wait = Math.max(pollMs, 10 * (performance.now() - began))
    }
  }
}

/** Counts until a limit is passed. What vanishes meanwhile does not count. */
async function measureTree(root: string, limits: TreeLimits): Promise<{ bytes: number; files: number }> {
  const folders = [root]
  let bytes = 0
  let files = 0
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await readdir(folder, { withFileTypes: true }).catch((): Dirent[] => [])
    files += entries.length
    for (const entry of entries) if (entry.isDirectory()) folders.push(join(folder, entry.name))
    const sizes = await Promise.all(
      entries.filter((entry) => entry.isFile()).map((entry) => blocksOf(join(entry.parentPath, entry.name))),
    )
    bytes += sizes.reduce((sum, size) => sum + size, 0)
    if (bytes > limits.maxBytes || files > limits.maxFiles) break
  }
  return { bytes, files }
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
