import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Role } from '../config/setting.ts'
import type { Config } from '../config.ts'
import { lastLines, type OnSpawn, startChild } from './child.ts'
import { childEnvironment } from './environment.ts'
import type { Running } from './supervisor.ts'
import { waitUntil } from './wait.ts'

const programs = {
  api: new URL('../../api/main.ts', import.meta.url),
  worker: new URL('../../workflows/main.ts', import.meta.url),
  runner: new URL('../../runner/main.ts', import.meta.url),
  edge: new URL('../../edge/main.ts', import.meta.url),
} satisfies Record<Role, URL>
const sourceMaps = new URL('./source-maps.mjs', import.meta.url).href

// what passes through is garbage at once: with the usual 16 MiB and more for young objects eight uploads of 50 MB took the api to 365 MiB
// instead of 203, and twice the time
const littleYoung = '--max-semi-space-size=4'
// a full collection only when the heap has doubled: by itself V8 collects a busy api each 2 to 3 s, to keep 20 MB less, and while 2,000 posts a
// second of a flood arrive, a hundred requests wait for each collection; the uploads take no more memory
const doublingHeap = '--heap-growing-percent=100'
/** For `collectGarbageOfStart`. */
const exposeGc = '--expose-gc'
// an edge remembers what it reads, so most of its heap is alive: with the usual 16 MiB for young objects 10,000 sites take 490 MiB instead of 370.
// With the usual growth it has a full collection every second or two, during which up to a hundred requests wait, instead of every ten
const someYoung = '--max-semi-space-size=8'
// on two processors V8's four helpers take from requests the time that they should save them: with one helper, and with marking between requests,
// the slowest hundredth with 10,000 sites takes 4 ms instead of 18
const fewHelpers = ['--v8-pool-size=1', '--no-concurrent-marking']
/** The flags of Node for each process. */
export const nodeFlags: Readonly<Record<Role, readonly string[]>> = {
  api: [exposeGc, littleYoung, doublingHeap],
  worker: [exposeGc, littleYoung],
  runner: [exposeGc, littleYoung],
  edge: [exposeGc, someYoung, doublingHeap, ...fewHelpers],
}

const processSettings = ({ cacheDir }: Config, role: Role, program: string) => ({
  // a bundle starts as quickly without it, and the cache would stay in memory: 12 MiB in the api
  ...(program.endsWith('.ts') && { NODE_COMPILE_CACHE: join(cacheDir, 'compiled') }),
  // the C library would have up to eight arenas for each processor, which keep what was freed: 4 to 7 MiB in an idle process
  MALLOC_ARENA_MAX: '2',
  // what held the workflows' code while it was loaded goes back to the system: 7 MiB. The others would gain nothing by it
  ...(role === 'worker' && { MALLOC_MMAP_THRESHOLD_: '131072' }),
})

/**
 * Starts one of our processes and waits until it says that it is ready.
 * @throws Error with the last lines of its log
 */
export async function startMainProcess(
  role: Role,
  config: Config,
  logDir: string,
  signal: AbortSignal,
  onSpawn?: OnSpawn,
): Promise<Running> {
  const program = fileURLToPath(programs[role])
  const logFile = join(logDir, `${role}.log`)
  const child = await startChild({
    command: [process.execPath, ...nodeFlags[role], '--import', sourceMaps, program],
    env: { ...childEnvironment(config, role), ...processSettings(config, role, program) },
    logFile,
    signal,
    onSpawn,
    channel: true,
    stopSignal: 'SIGTERM',
    // longer than the processes give their own work to end, which is 8 s
    stopTimeoutMs: 10_000,
  })
  try {
    await waitUntil(`the ${role}`, child.isReady, { timeoutMs: 60_000, ended: child.exited })
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw new Error(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return child
}
