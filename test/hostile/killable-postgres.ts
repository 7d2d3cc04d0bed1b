import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../../infra/local/ports.ts'
import { startPostgres } from '../../infra/local/postgres.ts'
import { prepareDatabase } from '../../infra/local/prepare-database.ts'

export interface KillablePostgres extends AsyncDisposable {
  /** Of a database with the schema. */
  readonly url: string
  /** Kills the server as a crash would, keeps it away for so long, and starts it again. Resolves with the instant at which it takes connections. */
  crash(awayMs: number): Promise<number>
}

/** A PostgreSQL for one test file, on a port that stays the same. */
export async function startKillablePostgres(): Promise<KillablePostgres> {
  await using opened = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-killable-'))
  // the user of PostgreSQL has to pass through
  await chmod(dir, 0o711)
  opened.defer(() => rm(dir, { recursive: true, force: true }))
  const options = { dir: join(dir, 'postgres'), port: await freePort(), log: () => undefined }
  let server = await startPostgres(options)
  opened.defer(() => server[Symbol.asyncDispose]())
  const { url } = server
  await prepareDatabase(url)
  const stack = opened.move()

  async function start(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        server = await startPostgres(options)
        return
      } catch (error) {
        // the processes of the killed server hold its shared memory until they notice
        if (tries === 20) throw error
        await pause(50)
      }
    }
  }

  async function untilConnected(): Promise<number> {
    const giveUpAt = Date.now() + 60_000
    while (!(await takesConnections())) {
      if (Date.now() > giveUpAt) throw new Error('PostgreSQL did not come back')
      await pause(5)
    }
    return performance.now()
  }

  async function takesConnections(): Promise<boolean> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1000 })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.end()
      return true
    } catch {
      return false
    }
  }

  return {
    url,
    async crash(awayMs) {
      process.kill(server.pid, 'SIGKILL')
      await server.exited
      await pause(awayMs)
      const [backAt] = await Promise.all([untilConnected(), start()])
      return backAt
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
