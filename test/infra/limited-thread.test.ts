import { afterEach, expect, test } from 'vitest'
import { AppError } from '../../core/errors.ts'
import { type LimitedThread, startLimitedThread } from '../../infra/threads/limited-thread.ts'
import type { SpinningCalls } from './spinning-thread.ts'

let thread: LimitedThread<SpinningCalls> | undefined
afterEach(() => thread?.[Symbol.asyncDispose]())

async function start(deadlineMs = 200) {
  thread = await startLimitedThread<SpinningCalls>(new URL('./spinning-thread.ts', import.meta.url), { deadlineMs, memoryMb: 64 })
  return thread
}

const blamed = (reason: string) => ({ reason, isToBlame: true })
const notBlamed = (reason: string) => ({ reason, isToBlame: false })

test.each(['spin', 'pattern'] as const)(
  'a call that holds the thread, by a %s, is ended, and the process goes on',
  async (name) => {
    const { call, ended } = await start()
    let turns = 0
    const turning = setInterval(() => {
      turns += 1
    }, 10)
    await expect(call(name, 3_600_000)).rejects.toMatchObject(blamed('time'))
    clearInterval(turning)
    expect(turns).toBeGreaterThan(5)
    expect(ended.aborted).toBe(true)
  },
)

test('the calls behind the one that held the thread are not to blame, and the one before has its answer', async () => {
  const { call } = await start()
  const calls = [call('echo', 1), call('spin', 3_600_000), call('echo', 2)]
  const [first, second, third] = await Promise.allSettled(calls)
  expect(first).toMatchObject({ value: 1 })
  expect(second).toMatchObject({ reason: blamed('time') })
  expect(third).toMatchObject({ reason: notBlamed('time') })
})

test('long work that lets the event loop turn is not ended, nor is one that waits, nor are many short ones', async () => {
  const { call } = await start()
  expect(await call('spinInTurns', 800)).toBe('done')
  expect(await call('wait', 800)).toBe('done')
  await Promise.all(Array.from({ length: 20 }, () => call('spin', 40)))
})

test('a call that fills the memory is ended, and the process goes on', async () => {
  const { call } = await start(30_000)
  await expect(call('fill')).rejects.toMatchObject(blamed('memory'))
})

test('what a call throws arrives: a refusal as one, of others what the system said', async () => {
  const { call } = await start()
  const refusal = await call('refuse').catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(AppError)
  expect(refusal).toMatchObject({ kind: 'conflict', message: 'no room' })
  await expect(call('readMissing')).rejects.toMatchObject({ code: 'ENOENT', path: '/nowhere/at/all', syscall: 'open' })
})

test('an error outside of a call ends the thread with its cause', async () => {
  const { call } = await start()
  await expect(call('throwLater')).rejects.toMatchObject({ reason: 'error', cause: { message: 'outside of a call' } })
})

test('a closed thread answers nothing and blames no call', async () => {
  const started = await start()
  const waiting = expect(started.call('wait', 60_000)).rejects.toMatchObject(notBlamed('closed'))
  await started[Symbol.asyncDispose]()
  await waiting
  await expect(started.call('echo', 1)).rejects.toMatchObject(notBlamed('closed'))
})

test('a file that is no thread of this kind is an error at the start', async () => {
  await expect(startLimitedThread(new URL('file:///nowhere.ts'), { deadlineMs: 200, memoryMb: 64 })).rejects.toThrow(
    '/nowhere.ts',
  )
})
