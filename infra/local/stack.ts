import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { searchAttributes } from '../../workflows/contract.ts'
import { type Config, ConfigError } from '../config.ts'
import { migrate, openDatabase } from '../db/database.ts'
import { readServerVersion } from '../db/health.ts'
import { apiOnSocket } from './api-client.ts'
import { prepareBuildTools } from './build-tools.ts'
import { startCaddy } from './caddy-process.ts'
import { claimDataDir } from './data-dir.ts'
import { openDemo } from './demo.ts'
import { startMainProcess } from './main-process.ts'
import { claimReachableFolder } from './place.ts'
import { choosePorts } from './ports.ts'
import { startPostgres } from './postgres.ts'
import type { Ready } from './ready.ts'
import { openProcessRecords } from './records.ts'
import { readSecret, writeSecret } from './secrets.ts'
import { openSocketDir } from './socket-dir.ts'
import { type Running, supervise } from './supervisor.ts'
import { startTemporal } from './temporal.ts'
import { findTool } from './tools.ts'

export interface StackOptions {
  /** Called with one line for people. */
  readonly report: (line: string) => void
  /** Stops the start, or what is running. */
  readonly signal: AbortSignal
}

/** Everything that `npm start` runs. Disposing stops it in the order in which it depends on each other. */
export interface Stack extends Ready, AsyncDisposable {}

/**
 * Starts what the settings ask for, side by side where nothing waits for the other, and waits until all of it is ready.
 * When one part fails the others are stopped.
 * @throws ConfigError for what the operator has to mend, Error with log lines for what failed
 */
export async function startStack(given: Config, { report, signal: outer }: StackOptions): Promise<Stack> {
  const failed = new AbortController()
  const signal = AbortSignal.any([outer, failed.signal])
  await using stack = new AsyncDisposableStack()
  const dataDir = stack.use(await claimDataDir(given.dataDir))
  stack.use(await openSocketDir(given.sockets.dir))
  const place = await claimReachableFolder(given.dataDir, dataDir.id, report)
  const logDir = join(given.dataDir, 'logs')
  const records = await openProcessRecords(join(given.dataDir, 'run'))
  const leftovers = await records.endLeftovers()
  if (leftovers.length > 0) report(`ended what a killed start had left running: ${leftovers.join(', ')}`)
  const ports = await choosePorts(given, report)
  const operatorToken = await openOperatorToken(given)
  const embedded = { database: given.database.url === undefined, temporal: given.temporal.address === undefined }

  // stopped from the last to the first: nothing is stopped before what needs it
  const services: Record<'stores' | 'processes' | 'entrance', AsyncDisposable[]> = { stores: [], processes: [], entrance: [] }
  for (const group of Object.values(services)) {
    stack.defer(async () => void (await Promise.all(group.map((service) => service[Symbol.asyncDispose]()))))
  }
  const run = async (group: keyof typeof services, name: string, start: () => Promise<Running>) => {
    services[group].push(await supervise(name, start, { records, report, logDir }))
  }
  const step = async <T>(title: string, work: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const result = await work()
    report(`${title}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    return result
  }
  const tools = { cacheDir: given.cacheDir, report, signal }

  const database = async () => {
    let url = given.database.url
    if (url === undefined) {
      const options = { dir: join(given.dataDir, 'postgres'), port: ports.postgres, logFile: join(logDir, 'postgres.log'), log: report, signal }
      await step(`PostgreSQL 18 on port ${ports.postgres}`, () =>
        run('stores', 'postgres', async () => {
          const server = await startPostgres(options)
          url = server.url
          return server
        }),
      )
    }
    await step('database schema', () => prepareDatabase(url as string))
    return url as string
  }
  const temporal = async () => {
    if (given.temporal.address !== undefined) return given.temporal
    const binary = await findTool('temporal', tools)
    const options = {
      binary,
      dbFile: join(given.dataDir, 'temporal', 'temporal.db'),
      port: ports.temporal,
      uiPort: ports.temporalUi,
      searchAttributes,
      logFile: join(logDir, 'temporal.log'),
      signal,
    }
    await step(`Temporal on port ${ports.temporal}`, () => run('stores', 'temporal', () => startTemporal(options)))
    return { ...given.temporal, address: `127.0.0.1:${ports.temporal}`, uiUrl: `http://localhost:${ports.temporalUi}` }
  }
  const caddy = async () => {
    const binary = await findTool('caddy', tools)
    await step(`Caddy on ports ${given.http.port} and ${given.http.httpsPort}`, () =>
      run('entrance', 'caddy', () => startCaddy(binary, given, logDir, signal)),
    )
  }
  const together = <T extends readonly Promise<unknown>[]>(work: T) => allOrNone(work, failed)

  const buildTools = step('build tools', () => prepareBuildTools(given, place, tools))
  const [[url, temporalNow], build] = await together([together([database(), temporal()]), buildTools, caddy()])
  return undefined as never
}
