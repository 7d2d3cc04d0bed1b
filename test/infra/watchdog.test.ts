import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Child, startChild } from '../../infra/local/child.ts'
import { openProcessRecords } from '../../infra/local/records.ts'
import { supervise } from '../../infra/local/supervisor.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { processIdentity } from '../../infra/process-identity.ts'

const program = (name: string) => join(import.meta.dirname, name)

let dir: string
let logFile: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-watchdog-'))
  logFile = join(dir, 'stuck.log')
})
afterEach(() => rm(dir, { recursive: true, force: true }))

async function bundled(name: string): Promise<string> {
  await promisify(execFile)(process.execPath, [program('../../infra/local/bundle-code.ts'), program(name), join(dir, 'bundle')])
  return join(dir, 'bundle', 'main.mjs')
}

const runs = async (pid: number) => (await processIdentity(pid)) !== undefined

async function startStuck(
  signal?: AbortSignal,
  onSpawn?: (pid: number) => Promise<void>,
  file = program('stuck-process.ts'),
): Promise<Child> {
  const child = await startChild({
    command: [process.execPath, file],
    env: {},
    logFile,
    signal,
    onSpawn,
    channel: true,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 500,
  })
  await waitUntil('the process', child.isReady, { timeoutMs: 60_000, ended: child.exited })
  return child
}

test.each(['sources', 'a bundle'])(
  'a process of %s whose event loop stands still is ended, says where it stood, and is started again',
  async (code) => {
    const file = code === 'sources' ? program('stuck-process.ts') : await bundled('stuck-process.ts')
    const said: string[] = []
    const records = await openProcessRecords(join(dir, 'run'))
    const options = {
      records,
      report: (line: string) => void said.push(line),
      logDir: dir,
      signal: new AbortController().signal,
      isServing: () => false,
    }
    const pids: number[] = []
    await using _supervised = await supervise(
      'stuck',
      async (signal) => {
        const child = await startStuck(signal, undefined, file)
        pids.push(child.pid)
        return child
      },
      options,
    )
    process.kill(pids[0] as number, 'SIGUSR2')
    await waitUntil('the second process', () => pids.length === 2, { timeoutMs: 60_000 })
    expect(said[0]).toBe(`stuck ended (SIGKILL); starting it again in 0.25 s (restart 1). Its log: ${dir}/stuck.log`)
    const line = JSON.parse((await readFile(logFile, 'utf8')).trimEnd()) as {
      process: string
      still_ms: number
      stack: string[]
      msg: string
    }
    expect(line).toMatchObject({ level: 60, process: 'stuck', msg: 'the event loop stood still; the process was ended' })
    expect(line.still_ms).toBeGreaterThanOrEqual(1000)
    expect(line.stack[0]).toMatch(/^blockForEver .*stuck-process\.ts:\d+$/)
  },
)

test('a process that is stopped for longer than that goes on afterwards', async () => {
  await using child = await startStuck()
  process.kill(child.pid, 'SIGSTOP')
  await pause(4000)
  process.kill(child.pid, 'SIGCONT')
  // two looks of the watching thread
  await pause(2000)
  expect(await runs(child.pid)).toBe(true)
  expect(await readFile(logFile, 'utf8')).toBe('')
})

test('a process that does not end when it is asked to is killed after its bound', async () => {
  const child = await startStuck()
  await child[Symbol.asyncDispose]()
  expect(await child.exited).toBe('SIGKILL')
})

test.each([
  ['whose event loop stands still', '600000', true],
  ['that never ends closing', '1000', false],
])('of a launcher that is killed, a process %s is left no longer than its bound', async (_name, orphanMs, isBlocked) => {
  const launcher = spawn(process.execPath, [program('launcher-process.ts'), program('stuck-process.ts'), orphanMs], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(launcher.stdout, 'data')) as [Buffer]
  const pid = Number(line)
  if (isBlocked) process.kill(pid, 'SIGUSR2')
  launcher.kill('SIGKILL')
  await once(launcher, 'exit')
  await waitUntil('the end of the process', async () => !(await runs(pid)), { timeoutMs: 60_000 })
})
