import { constants, existsSync } from 'node:fs'
import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

export interface CgroupLimits {
  readonly memoryBytes: number
  /** Processes and threads together. */
  readonly pids: number
}

/** The processes of one build, as the kernel counts them. */
export interface Cgroup {
  add(pid: number): Promise<void>
  /** Whether the kernel has ended a process of it for want of memory. */
  ranOutOfMemory(): Promise<boolean>
  /** Ends every process in it and returns when none is left. */
  kill(): Promise<void>
  /** Only after `kill`. */
  remove(): Promise<void>
}

export interface Cgroups extends AsyncDisposable {
  readonly kind: 'v2' | 'v1' | 'none'
  /** Undefined where there are no cgroups to divide. */
  open(name: string, limits: CgroupLimits): Promise<Cgroup | undefined>
  /** Ends and removes what an earlier runner of the same name has left. */
  removeLeftovers(): Promise<void>
}

const mountPoint = '/sys/fs/cgroup'
/**
 * All builds together count half as much as one other process, in line for the processor and the disk. Written to the folder that
 * holds their groups, because weights compare siblings. Less than half, and builds starve on a machine that does other work too.
 */
const weights: Readonly<Record<string, string>> = {
  'cpu.weight': '50',
  'io.weight': '50',
  // v1
  'cpu.shares': '512',
  'blkio.bfq.weight': '50',
}

/**
 * Finds the cgroups that this process may divide further: v2, else v1, else none, where limits fall to the watchdog.
 * @param name of the folder that holds one group per build; disposing removes it
 */
export async function findCgroups(name: string): Promise<Cgroups> {
  const own = await ownGroups()
  return (await findV2(name, own)) ?? (await findV1(name, own)) ?? none
}

const none: Cgroups = {
  kind: 'none',
  open: async () => undefined,
  removeLeftovers: async () => undefined,
  [Symbol.asyncDispose]: async () => undefined,
}

async function findV2(name: string, own: ReadonlyMap<string, string>): Promise<Cgroups | undefined> {
  const controllers = await read(join(mountPoint, 'cgroup.controllers')).catch(() => '')
  if (!controllers.includes('memory') || !controllers.includes('pids')) return undefined
  const path = own.get('') ?? '/'
  // a group with processes of its own cannot have limited children; a service manager then hands over its parent
  for (const parent of new Set([path, dirname(path)])) {
    const base = join(mountPoint, parent, name)
    try {
      await writeFile(join(mountPoint, parent, 'cgroup.subtree_control'), '+memory +pids +cpu')
      await mkdir(base, { recursive: true })
      await writeFile(join(base, 'cgroup.subtree_control'), '+memory +pids +cpu')
    } catch {
      continue
    }
    await writeFile(join(mountPoint, parent, 'cgroup.subtree_control'), '+io').catch(() => undefined)
    await setWeights(base)
    return cgroupsIn('v2', [base], 'memory.events', async ([folder = ''], { memoryBytes, pids }) => {
      await writeFile(join(folder, 'memory.max'), String(memoryBytes))
      await writeFile(join(folder, 'pids.max'), String(pids))
      await writeFile(join(folder, 'memory.swap.max'), '0').catch(() => undefined)
    })
  }
  return undefined
}

async function findV1(name: string, own: ReadonlyMap<string, string>): Promise<Cgroups | undefined> {
  const memory = await childOf('memory')
  const pids = await childOf('pids')
  if (!memory || !pids) return undefined
  const weighted = [await childOf('cpu'), await childOf('blkio')].filter((folder) => folder !== undefined)
  for (const folder of weighted) await setWeights(folder)
  return cgroupsIn('v1', [memory, pids, ...weighted], 'memory.oom_control', async (folders, limits) => {
    const [memoryFolder = '', pidsFolder = ''] = folders
    await writeFile(join(memoryFolder, 'memory.limit_in_bytes'), String(limits.memoryBytes))
    // absent where the kernel does not account for swap
    await writeFile(join(memoryFolder, 'memory.memsw.limit_in_bytes'), String(limits.memoryBytes)).catch(() => undefined)
    await writeFile(join(pidsFolder, 'pids.max'), String(limits.pids))
  })

  async function childOf(controller: string): Promise<string | undefined> {
    // in a container the path of the group may be the host's, which is not mounted
    for (const parent of [own.get(controller) ?? '/', '/']) {
      const folder = join(mountPoint, controller, parent)
      try {
        await access(join(folder, 'cgroup.procs'), constants.W_OK)
        await mkdir(join(folder, name), { recursive: true })
        return join(folder, name)
      } catch {}
    }
    return undefined
  }
}

async function setWeights(folder: string): Promise<void> {
  for (const [file, weight] of Object.entries(weights)) {
    const path = join(folder, file)
    if (existsSync(path)) await writeFile(path, weight).catch(() => undefined)
  }
}

/** `bases` hold one folder per group each; the first has the memory controller, and the second (v1) counts the processes. */
function cgroupsIn(
  kind: 'v1' | 'v2',
  bases: readonly string[],
  memoryEvents: string,
  limit: (folders: readonly string[], limits: CgroupLimits) => Promise<void>,
): Cgroups {
  const foldersOf = (name: string) => bases.map((base) => join(base, name))
  const groupIn = (folders: readonly string[]) =>
    groupOf(folders, folders[1] ?? folders[0] ?? '', join(folders[0] ?? '', memoryEvents))
  return {
    kind,
    async open(name, limits) {
      const folders = foldersOf(name)
      for (const folder of folders) await mkdir(folder)
      await limit(folders, limits)
      return groupIn(folders)
    },
    async removeLeftovers() {
      for (const entry of await readdir(bases[0] ?? '', { withFileTypes: true })) {
        if (!entry.isDirectory()) continue
        const group = groupIn(foldersOf(entry.name))
        await group.kill()
        await group.remove()
      }
    },
    async [Symbol.asyncDispose]() {
      for (const base of bases) await removeGroup(base)
    },
  }
}

function groupOf(folders: readonly string[], processes: string, memoryEvents: string): Cgroup {
  async function members(): Promise<number[]> {
    return (await read(join(processes, 'cgroup.procs'))).split('\n').filter(Boolean).map(Number)
  }

  return {
    async add(pid: number) {
      for (const folder of folders) await writeFile(join(folder, 'cgroup.procs'), String(pid))
    },
    async ranOutOfMemory() {
      return Number(/^oom_kill (\d+)$/m.exec(await read(memoryEvents))?.[1] ?? 0) > 0
    },
    async kill() {
      // no new process from now on, or a fork bomb outruns the signals
      await writeFile(join(processes, 'pids.max'), '0')
      for (let pids = await members(); pids.length > 0; pids = await members()) {
        for (const pid of pids) signal(pid)
        await pause(5)
      }
    },
    async remove() {
      for (const folder of folders) await removeGroup(folder)
    },
  }
}

/** The kernel refuses for a moment after the last process has ended. */
async function removeGroup(folder: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await rmdir(folder)
      return
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return
      if (code !== 'EBUSY' || attempt === 400) throw error
      await pause(5)
    }
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // ended by itself since the list was read
  }
}

/** Path of this process's group by controller; v2 has the empty name. */
async function ownGroups(): Promise<Map<string, string>> {
  const groups = new Map<string, string>()
  for (const line of (await read('/proc/self/cgroup').catch(() => '')).split('\n')) {
    const [, controllers = '', path = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (line) for (const controller of controllers.split(',')) groups.set(controller, path)
  }
  return groups
}

const read = (path: string) => readFile(path, 'utf8')
