import { readdir, readFile, statfs } from 'node:fs/promises'
import { execa } from 'execa'
import { pause } from '../../infra/pause.ts'
import type { MemoryUse } from './cgroup-memory.ts'

export interface TreeLimits {
  readonly maxBytes: number
  readonly maxFiles: number
}

/** Why a tree may not grow further: it is too large, or the disk that holds it is nearly full. */
type TreeProblem = 'over' | 'full'

const MiB = 1024 * 1024
const treePollMs = 200
const lookGapMs = 1000
const memoryPollMs = 500
const pageBytes = 4096
/** The free space that builds leave on a disk: a twentieth of it, or this. */
const reservedBytes = 256 * MiB

/**
 * Calls `onProblem` once. It measures again after twenty times the duration of a measurement, and at once when the disk has lost the space that
 * the tree had left, so that a tree that is slow to measure cannot outrun it.
 */
export function watchTree(folder: string, limits: TreeLimits, onProblem: (problem: TreeProblem) => void): Disposable {
  let due = performance.now() + lookGapMs
  let left = { bytes: limits.maxBytes, files: limits.maxFiles }
  let freeThen = { bytes: 0, files: 0 }

  return poll(treePollMs, async () => {
    const { free, full } = await roomOf(folder)
    freeThen = { bytes: Math.max(freeThen.bytes, free.bytes), files: Math.max(freeThen.files, free.files) }
    const mayBeOver = freeThen.bytes - free.bytes >= left.bytes || freeThen.files - free.files >= left.files
    const began = performance.now()
    if (began < due && !full && !mayBeOver) return undefined
    const size = await measureTree(folder, limits)
    if (size.bytes > limits.maxBytes || size.files > limits.maxFiles) return () => onProblem('over')
    if (full) return () => onProblem('full')
    due = performance.now() + Math.max(lookGapMs, 20 * (performance.now() - began))
    left = { bytes: limits.maxBytes - size.bytes, files: limits.maxFiles - size.files }
    freeThen = free
    return undefined
  })
}

/** Calls `onOver` once when the processes below `pid` hold more memory than allowed; stands in for a cgroup. */
export function watchMemory(pid: number, maxBytes: number, onOver: () => void): Disposable {
  return poll(memoryPollMs, async () => ((await residentBytes(pid)) > maxBytes ? onOver : undefined))
}

const thrashingLooks = 10
const thrashingLookMs = 1000

/**
 * Calls `onThrashing` once, when a group has stood at its memory limit for ten seconds without getting on: the kernel takes away the pages
 * of the running program itself, which are read again at once, so it never runs out of memory and never ends either.
 */
export function watchThrashing(memory: () => Promise<MemoryUse>, maxBytes: number, onThrashing: () => void): Disposable {
  let before: { readonly use: MemoryUse; readonly at: number } | undefined
  let looks = 0

  return poll(thrashingLookMs, async () => {
    const now = { use: await memory(), at: performance.now() }
    const isThrashing = before !== undefined && thrashes(before.use, now.use, now.at - before.at, maxBytes)
    looks = isThrashing ? looks + 1 : 0
    before = now
    return looks >= thrashingLooks ? onThrashing : undefined
  })
}

/**
 * Measured on Node at a limit of 192 MiB, a second: 90 to 200 major faults, 130,000 pages read again and at most 20 ms of user time. Builds
 * that only fill the page cache at their limit (copying, writing and reading more than fits) have at most 15 major faults in one second and
 * 4 in the next.
 */
function thrashes(before: MemoryUse, now: MemoryUse, elapsedMs: number, maxBytes: number): boolean {
  if (before.userMs === undefined || now.userMs === undefined || now.bytes < 0.98 * maxBytes) return false
  const perSecond = (count: number) => (count * 1000) / elapsedMs
  const isStandingStill = now.userMs - before.userMs < elapsedMs / 20
  const waitsForItself = perSecond(now.majorFaults - before.majorFaults) >= 20
  return isStandingStill && waitsForItself && perSecond(now.refaultedPages - before.refaultedPages) >= 500
}

/** Whether the disk of this folder has no room left for builds. */
export async function isDiskFull(folder: string): Promise<boolean> {
  return (await roomOf(folder)).full
}

async function roomOf(folder: string): Promise<{ free: { bytes: number; files: number }; full: boolean }> {
  const disk = await statfs(folder)
  const free = { bytes: disk.bavail * disk.bsize, files: disk.ffree }
  // file systems without a fixed number of files say 0
  const noFiles = disk.files > 0 && free.files < disk.files / 100
  return { free, full: noFiles || free.bytes < Math.min(reservedBytes, (disk.blocks * disk.bsize) / 20) }
}

/** Measures until there is a result, reports it and ends. A failed measurement is ignored, because the folder is about to be removed. */
function poll(everyMs: number, look: () => Promise<(() => void) | undefined>): Disposable {
  const stopped = new AbortController()
  void loop()
  return { [Symbol.dispose]: () => stopped.abort() }

  async function loop(): Promise<void> {
    while (!stopped.signal.aborted) {
      await pause(everyMs, stopped.signal)
      if (stopped.signal.aborted) return
      const problem = await look().catch(() => undefined)
      if (!problem) continue
      if (!stopped.signal.aborted) problem()
      return
    }
  }
}

/**
 * Counts until a limit is passed, by `find`, which walks trees deeper than the longest path. Files that vanish in the meantime do not count.
 * @throws Error when not even `root` is there, or this system's `find` cannot print sizes
 */
export async function measureTree(root: string, limits: TreeLimits): Promise<{ bytes: number; files: number }> {
  let bytes = 0
  let files = -1
  let cut = ''
  const find = execa('find', ['-P', root, '-printf', '%b\n'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    buffer: false,
    reject: false,
  })
  find.stdout.setEncoding('latin1')
  for await (const chunk of find.stdout) {
    const lines = (cut + String(chunk)).split('\n')
    cut = lines.pop() ?? ''
    files += lines.length
    bytes = lines.reduce((sum, blocks) => sum + Number(blocks) * 512, bytes)
    if (bytes > limits.maxBytes || files > limits.maxFiles) break
  }
  await find
  if (files < 0) throw new Error(`find of GNU findutils cannot measure ${root}`)
  return { bytes, files }
}

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
