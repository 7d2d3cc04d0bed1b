import { join } from 'node:path'
import type { Config } from '../config.ts'
import { lastLines, type OnSpawn, startChild } from './child.ts'
import { childEnvironment, type Role } from './environment.ts'
import type { Running } from './supervisor.ts'
import { waitUntil } from './wait.ts'

const root = join(import.meta.dirname, '..', '..')
const entries = {
  api: 'api/main.ts',
  worker: 'workflows/main.ts',
  runner: 'runner/main.ts',
  edge: 'edge/main.ts',
} satisfies Record<Role, string>

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
  const logFile = join(logDir, `${role}.log`)
  const child = await startChild({
    command: [process.execPath, join(root, entries[role])],
    env: childEnvironment(config, role),
    logFile,
    signal,
    onSpawn,
    channel: true,
    stopSignal: 'SIGTERM',
    // longer than the processes give their own work to end
    stopTimeoutMs: 30_000,
  })
  try {
    await waitUntil(`the ${role}`, child.isReady, { timeoutMs: 60_000, ended: child.exited })
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw new Error(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return child
}
