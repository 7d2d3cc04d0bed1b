import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { conflict } from '../../core/errors.ts'
import { serveCalls } from '../../infra/threads/serve-calls.ts'

// A thread whose calls are slow, large or fail: see limited-thread.test.ts.

// asking for the time is a system call, so much of the time is the system's
const usedMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
const spin = (ms: number) => {
  const end = usedMs() + ms
  while (usedMs() < end);
}

const calls = {
  echo: (value: unknown) => value,
  spin,
  pattern: () => /^(?:a+)+$/.test(`${'a'.repeat(64)}b`),
  async spinInTurns(ms: number) {
    for (let spent = 0; spent < ms; spent += 20) {
      spin(20)
      await nextTurn()
    }
    return 'done'
  },
  wait: (ms: number) => pause(ms, 'done'),
  fill() {
    const held: number[][] = []
    for (;;) held.push(Array.from({ length: 10_000 }, (_, i) => i + held.length))
  },
  refuse() {
    throw conflict('no room')
  },
  readMissing: () => readFile('/nowhere/at/all'),
  throwLater: () =>
    setTimeout(() => {
      throw new Error('outside of a call')
    }, 1) && pause(60_000),
}
export type SpinningCalls = typeof calls

serveCalls(calls)
