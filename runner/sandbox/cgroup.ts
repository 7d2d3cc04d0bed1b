import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { sendSignal } from '../../infra/send-signal.ts'
import { fileIn, type MemoryUse, type ReadMemory } from './cgroup-memory.ts'

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
  return {
    kind,
    async open(name, limits) {
      const folders = foldersOf(name)
      for (const folder of folders) await mkdir(folder)
      await limit(folders, limits)
      return groupOf(folders, readMemory)
    },
    async removeLeftovers() {
      // a runner that was killed while it made or removed a group has left only some of its folders
      const entries = await Promise.all(bases.map((base) => readdir(base, { withFileTypes: true })))
      const names = new Set(entries.flat().flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])))
      for (const name of names) {
        const left = foldersOf(name).filter((folder) => existsSync(folder))
        const group = groupOf(left, readMemory)
        await group.kill()
        await group.remove()
      }
    },
    async [Symbol.asyncDispose]() {
      for (const base of bases) await removeGroup(base)
    },
  }
}

function groupOf(folders: readonly string[], readMemory: ReadMemory): Cgroup {
  /** A process that is being added is in some of the folders only. */
  async function members(): Promise<Set<number>> {
    const lists = await Promise.all(folders.map((folder) => readFile(join(folder, 'cgroup.procs'), 'utf8')))
    return new Set(lists.join('\n').split('\n').filter(Boolean).map(Number))
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
      const limit = fileIn(folders, 'pids.max')
      if (limit) await writeFile(limit, '0')
      for (let pids = await members(); pids.size > 0; pids = await members()) {
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
