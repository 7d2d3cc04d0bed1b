import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync } from 'node:fs'
import { rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findCgroups } from '../../../runner/sandbox/find-cgroups.ts'

const limits = { memoryBytes: 64 * 1024 * 1024, pids: 10 }

const name = `plinth-test-${process.pid}`
const cgroups = await findCgroups(name)
afterAll(() => cgroups[Symbol.asyncDispose]())

async function start(program: string, ...args: string[]) {
  const child = spawn(program, args)
  const ended = once(child, 'exit')
  await once(child, 'spawn')
  return { pid: child.pid as number, ended }
}

const foldersOf = (group: string) => globSync(`/sys/fs/cgroup/**/${name}/${group}`)

test.skipIf(cgroups.kind === 'none')(
  'a process that ended before it was added is no failure, and what is added is killed',
  async () => {
    const group = await cgroups.open('one', limits)
    if (!group) throw new Error('there is no group')
    const gone = await start('true')
    await gone.ended
    await group.add(gone.pid)
    const running = await start('sleep', '60')
    await group.add(running.pid)
    await group.kill()
    expect(await running.ended).toEqual([null, 'SIGKILL'])
    await group.remove()
  },
)

test.skipIf(cgroups.kind === 'none')(
  'each part of a group that a killed runner has left is removed, its processes ended',
  async () => {
    await cgroups.open('whole', limits)
    const places = foldersOf('whole').length
    expect(places).toBeGreaterThan(0)
    for (let kept = 0; kept < places; kept++) await cgroups.open(`only-${kept}`, limits)
    const processes: Awaited<ReturnType<typeof start>>[] = []
    for (let kept = 0; kept < places; kept++) {
      const folders = foldersOf(`only-${kept}`)
      for (const [index, folder] of folders.entries()) if (index !== kept) await rmdir(folder)
      const running = await start('sleep', '60')
      await writeFile(join(folders[kept] ?? '', 'cgroup.procs'), String(running.pid))
      processes.push(running)
    }
    await cgroups.removeLeftovers()
    for (const { ended } of processes) expect(await ended).toEqual([null, 'SIGKILL'])
    expect(globSync(`/sys/fs/cgroup/**/${name}/*/`)).toEqual([])
    expect(existsSync('pids.max'), 'a file in the working folder').toBe(false)
  },
)
