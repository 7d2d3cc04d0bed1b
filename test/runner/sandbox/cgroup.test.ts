import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, expect, test } from 'vitest'
import { findCgroups } from '../../../runner/sandbox/find-cgroups.ts'

const limits = { memoryBytes: 64 * 1024 * 1024, pids: 10 }

const cgroups = await findCgroups(`plinth-test-${process.pid}`)
afterAll(() => cgroups[Symbol.asyncDispose]())

test.skipIf(cgroups.kind === 'none')(
  'a process that ended before it was added is no failure, and what is added is killed',
  async () => {
    const group = await cgroups.open('one', limits)
    if (!group) throw new Error('there is no group')
    const start = async (program: string, ...args: string[]) => {
      const child = spawn(program, args)
      const ended = once(child, 'exit')
      await once(child, 'spawn')
      return { pid: child.pid as number, ended }
    }
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
