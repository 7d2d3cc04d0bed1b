import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { sendSignal } from '../../infra/send-signal.ts'
import { folderWith, type MemoryUse, type ReadMemory } from './cgroup-memory.ts'

export interface CgroupLimits {
  readonly memoryBytes: number
  /** Processes and threads together. */
  readonly pids: number
}

/** The processes of one build, as the kernel counts them. */
export interface Cgroup {
  /** Does nothing for a process that has ended. */
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

/** Groups with one folder in each of `bases`, of which the first has the memory controller. */
export function cgroupsIn(
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
    return (await readFile(join(processes, 'cgroup.procs'), 'utf8')).split('\n').filter(Boolean).map(Number)
  }

  return {
    async add(pid: number) {
      for (const folder of folders) {
        try {
          await writeFile(join(folder, 'cgroup.procs'), String(pid))
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
        }
      }
    },
    memory: () => readMemory(folders),
    async kill() {
      // no new process from now on, or a fork bomb outruns the signals
      await writeFile(join(processes, 'pids.max'), '0')
      for (let pids = await members(); pids.length > 0; pids = await members()) {
        for (const pid of pids) sendSignal(pid, 'SIGKILL')
        await setTimeout(5)
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
      await setTimeout(5)
    }
  }
}
