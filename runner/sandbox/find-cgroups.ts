import { constants, existsSync } from 'node:fs'
import { access, mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Cgroups, cgroupsIn } from './cgroup.ts'
import { fileIn, readMemoryV1, readMemoryV2 } from './cgroup-memory.ts'

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
  const controllers = await readFile(join(mountPoint, 'cgroup.controllers'), 'utf8').catch(() => '')
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
    const pidsFile = fileIn(folders, 'pids.max')
    if (!pidsFile) throw new Error('The kernel does not limit processes in this group: pids.max is missing.')
    await writeFile(pidsFile, String(limits.pids))
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

/** Path of this process's group by controller; v2 has the empty name. */
async function ownGroups(): Promise<Map<string, string>> {
  const groups = new Map<string, string>()
  for (const line of (await readFile('/proc/self/cgroup', 'utf8').catch(() => '')).split('\n')) {
    const [, controllers = '', path = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (line) for (const controller of controllers.split(',')) groups.set(controller, path)
  }
  return groups
}
