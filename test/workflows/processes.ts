import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Role } from '../../infra/config/setting.ts'
import { deriveRunnerToken } from '../../infra/crypto/runner-token.ts'
import { childEnvironment } from '../../infra/local/environment.ts'
import { secretKey, type World } from '../world.ts'

/** The worker and the runner of a world without them, as processes of their own that a test may kill. */
export interface Processes extends AsyncDisposable {
  start(role: Role): void
  /** Kills the process and starts it again. */
  restart(role: Role): Promise<void>
}

/** @param environment of the processes, besides their settings */
export function openProcesses(w: World, environment: Readonly<Record<string, string>> = {}): Processes {
  const config = {
    ...w.config,
    database: { ...w.config.database, url: w.database.url },
    temporal: { ...w.config.temporal, ...w.temporal },
    apiUrl: w.base,
    runnerToken: deriveRunnerToken(secretKey),
  }
  // of all tests; without what was compiled before, each start takes half a second longer
  const cache = { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }
  const running = new Map<Role, ChildProcess>()

  function start(role: Role): void {
    const main = join(import.meta.dirname, `../../${role === 'worker' ? 'workflows' : role}/main.ts`)
    running.set(
      role,
      spawn(process.execPath, [main], { env: { ...childEnvironment(config, role), ...cache, ...environment }, stdio: 'ignore' }),
    )
  }
  async function kill(role: Role): Promise<void> {
    const child = running.get(role)
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  return {
    start,
    async restart(role) {
      await kill(role)
      start(role)
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...running.keys()].map(kill))
    },
  }
}
