import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The use of memory by a group. All but `bytes` count from its creation. */
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

/** Reads what the group in these folders has done; the first folder has the memory controller. */
export type ReadMemory = (folders: readonly string[]) => Promise<MemoryUse>

export const readMemoryV2: ReadMemory = async ([folder = '']) => {
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

export const readMemoryV1: ReadMemory = async (folders) => {
  const [folder = ''] = folders
  const [bytes, failures, control, stat] = await Promise.all(
    ['memory.usage_in_bytes', 'memory.failcnt', 'memory.oom_control', 'memory.stat'].map((file) => read(join(folder, file))),
  )
  const accounting = fileIn(folders, 'cpuacct.stat')
  const userTicks = numberIn(accounting && (await read(accounting)), 'user')
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

/** The file's path in the folder that has it: which controllers share a folder is up to the machine. */
export const fileIn = (folders: readonly string[], file: string) =>
  folders.map((folder) => join(folder, file)).find((path) => existsSync(path))

/** From lines of a name and a number. */
function numberIn(lines: string | undefined, name: string): number | undefined {
  const line = lines?.split('\n').find((line) => line.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}

const read = (path: string) => readFile(path, 'utf8')
