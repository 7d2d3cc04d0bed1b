import { constants, existsSync } from 'node:fs'
import { access, mkdir, readdir, readFile, realpath, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

export interface CgroupLimits {
  readonly memoryBytes: number
  /** Processes and threads together. */
  readonly pids: number
}

/** What a group has done with its memory. All but `bytes` count from the making of the group. */
export interface MemoryUse {
  /** Held now, the page cache of the files that it has read included. */
  readonly bytes: number
  /** How often the kernel had to take pages back because the limit was reached. */
  readonly limitHits: number
  /** Processes that the kernel has ended for want of memory. */
  readonly oomKills: number
  /** Times that a process had to wait for a page of a mapped file, such as its own program. */
  readonly majorFaults: number
  /** Pages of files that were read again soon after the kernel had taken them back. */
  readonly refaultedPages: number
  /** Time that the processes have spent in their own code. Undefined where the kernel does not count it. */
  readonly userMs: number | undefined
}

/** The processes of one build, as the kernel counts them. */
export interface Cgroup {
  add(pid: number): Promise<void>
  memory(): Promise<MemoryUse>
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
    return cgroupsIn('v2', [base], readMemoryV2, async ([folder = ''], { memoryBytes, pids }) => {
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
  const others = [await childOf('cpu'), await childOf('blkio'), await childOf('cpuacct')].filter((folder) => folder !== undefined)
  for (const folder of others) await setWeights(folder)
  return cgroupsIn('v1', [...new Set([memory, pids, ...others])], readMemoryV1, async (folders, limits) => {
    const [memoryFolder = ''] = folders
    await writeFile(join(memoryFolder, 'memory.limit_in_bytes'), String(limits.memoryBytes))
    // absent where the kernel does not account for swap
    await writeFile(join(memoryFolder, 'memory.memsw.limit_in_bytes'), String(limits.memoryBytes)).catch(() => undefined)
    await writeFile(join(folderWith('pids.max', folders), 'pids.max'), String(limits.pids))
  })

  async function childOf(controller: string): Promise<string | undefined> {
    // in a container the path of the group may be the host's, which is not mounted
    for (const parent of [own.get(controller) ?? '/', '/']) {
      const folder = join(mountPoint, controller, parent)
      try {
        await access(join(folder, 'cgroup.procs'), constants.W_OK)
        await mkdir(join(folder, name), { recursive: true })
        // controllers that are mounted together have one folder with several names
        return await realpath(join(folder, name))
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

/** Of the folders of one group. */
type ReadMemory = (folders: readonly string[]) => Promise<MemoryUse>

const readMemoryV2: ReadMemory = async ([folder = '']) => {
  const [bytes, events, stat, cpu] = await Promise.all(
    ['memory.current', 'memory.events', 'memory.stat', 'cpu.stat'].map((file) => read(join(folder, file))),
  )
  const userMicroseconds = numberIn(cpu, 'user_usec')
  return {
    bytes: Number(bytes),
    limitHits: numberIn(events, 'max') ?? 0,
    oomKills: numberIn(events, 'oom_kill') ?? 0,
    majorFaults: numberIn(stat, 'pgmajfault') ?? 0,
    refaultedPages: numberIn(stat, 'workingset_refault_file') ?? 0,
    userMs: userMicroseconds === undefined ? undefined : userMicroseconds / 1000,
  }
}

const readMemoryV1: ReadMemory = async (folders) => {
  const [folder = ''] = folders
  const [bytes, failures, control, stat] = await Promise.all(
    ['memory.usage_in_bytes', 'memory.failcnt', 'memory.oom_control', 'memory.stat'].map((file) => read(join(folder, file))),
  )
  const accounting = await read(join(folderWith('cpuacct.stat', folders), 'cpuacct.stat')).catch(() => undefined)
  const userTicks = numberIn(accounting, 'user')
  return {
    bytes: Number(bytes),
    limitHits: Number(failures),
    oomKills: numberIn(control, 'oom_kill') ?? 0,
    majorFaults: numberIn(stat, 'total_pgmajfault') ?? 0,
    refaultedPages: numberIn(stat, 'total_workingset_refault_file') ?? 0,
    userMs: userTicks === undefined ? undefined : userTicks * tickMs,
  }
}

/** Linux reports times in hundredths of a second, whatever it counts in. */
const tickMs = 10

/** Which controllers share a folder is up to the machine. */
const folderWith = (file: string, folders: readonly string[]) => folders.find((path) => existsSync(join(path, file))) ?? ''

/** From lines of a name and a number. */
function numberIn(lines: string | undefined, name: string): number | undefined {
  const line = lines?.split('\n').find((line) => line.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}

/** `bases` hold one folder per group each; the first has the memory controller. */
function cgroupsIn(
  kind: 'v1' | 'v2',
  bases: readonly string[],
  readMemory: ReadMemory,
  limit: (folders: readonly string[], limits: CgroupLimits) => Promise<void>,
): Cgroups {
  const foldersOf = (name: string) => bases.map((base) => join(base, name))
  const groupIn = (folders: readonly string[]) => groupOf(folders, folderWith('pids.max', folders), readMemory)
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

function groupOf(folders: readonly string[], processes: string, readMemory: ReadMemory): Cgroup {
  async function members(): Promise<number[]> {
    return (await read(join(processes, 'cgroup.procs'))).split('\n').filter(Boolean).map(Number)
  }

  return {
    async add(pid: number) {
      for (const folder of folders) await writeFile(join(folder, 'cgroup.procs'), String(pid))
    },
    memory: () => readMemory(folders),
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
