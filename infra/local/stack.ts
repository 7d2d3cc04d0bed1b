import { join } from 'node:path'
import { searchAttributes } from '../../core/search-attributes.ts'
import type { Role } from '../config/setting.ts'
import { type Config, parseSecretKey } from '../config.ts'
import { prepareBuildTools } from './build-tools.ts'
import { startCaddy } from './caddy-process.ts'
import { trimLogs } from './child.ts'
import { claimDataDir } from './data-dir.ts'
import { openDemo } from './demo.ts'
import { startMainProcess } from './main-process.ts'
import { claimReachableFolder } from './place.ts'
import { choosePorts, usableAddresses } from './ports.ts'
import { startPostgres } from './postgres.ts'
import { prepareDatabase } from './prepare-database.ts'
import type { Ready } from './ready.ts'
import { openProcessRecords } from './records.ts'
import { openSecret } from './secrets.ts'
import { openSocketDir } from './socket-dir.ts'
import { type Start, supervise } from './supervisor.ts'
import { startTemporal } from './temporal.ts'
import { findTool } from './tools.ts'
import { isolationLine } from './warnings.ts'

export interface StackOptions {
  /** Called with one line for people. */
  readonly report: (line: string) => void
  /** Gives up the start. What runs already is stopped by disposing. */
  readonly signal: AbortSignal
}

/** Everything that `npm start` runs. Disposing stops it, nothing before what needs it. */
export interface Stack extends Ready, AsyncDisposable {}

/**
 * Starts what the settings ask for, side by side where nothing waits for the other, and waits until all of it is ready.
 * When one part fails the others are stopped.
 * @throws ConfigError for what the operator has to mend, Error with log lines for what failed, the signal's reason when it is aborted
 */
export async function startStack(settings: Config, { report, signal: outer }: StackOptions): Promise<Stack> {
  const starting = new AbortController()
  const giveUp = () => starting.abort(outer.reason)
  outer.addEventListener('abort', giveUp)
  await using stack = new AsyncDisposableStack()
  const dataDir = stack.use(await claimDataDir(settings.dataDir))
  stack.use(await openSocketDir(settings.sockets.dir))
  const given = { ...settings, http: { ...settings.http, listen: await usableAddresses(settings.http.listen) } }
  const place = await claimReachableFolder(given.dataDir, dataDir.id, report)
  const logDir = join(given.dataDir, 'logs')
  const trimming = setInterval(
    () => trimLogs(logDir).catch((error: Error) => report(`the logs were not trimmed: ${error.message}`)),
    60_000,
  )
  stack.defer(() => clearInterval(trimming))
  const records = await openProcessRecords(join(given.dataDir, 'run'))
  const leftovers = await records.endLeftovers()
  if (leftovers.length > 0) report(`ended what a killed start had left running: ${leftovers.join(', ')}`)
  const ports = await choosePorts(given, report)
  const token = await openOperatorToken(given)
  const secretKey = await openSecretKey(given)
  const served = { ...given, secretKey, acme: { ...given.acme, certificatesPort: ports.certificates } }
  const tools = { cacheDir: given.cacheDir, report, signal: starting.signal }

  const groups: Record<'stores' | 'processes' | 'entrance', AsyncDisposable[]> = { stores: [], processes: [], entrance: [] }
  // the stack is emptied from its end: the entrance is closed first
  for (const group of Object.values(groups)) stack.defer(() => disposeAll(group))
  const run = (group: keyof typeof groups, name: string, title: string, start: Start) =>
    timed(title, report, async () => {
      groups[group].push(await supervise(name, start, { records, report, logDir, signal: starting.signal }))
    })

  const database = async () => {
    let { url } = given.database
    if (url === undefined) {
      const options = {
        dir: join(given.dataDir, 'postgres'),
        port: ports.postgres,
        logFile: join(logDir, 'postgres.log'),
        log: report,
      }
      await run('stores', 'postgres', `PostgreSQL on port ${ports.postgres}`, async (signal, onSpawn) => {
        const server = await startPostgres({ ...options, signal, onSpawn })
        url = server.url
        return server
      })
    }
    const ready = url as string
    await timed('database schema', report, () => prepareDatabase(ready))
    return ready
  }

  const temporal = async () => {
    if (given.temporal.address !== undefined) return given.temporal
    const options = {
      binary: await findTool('temporal', tools),
      dbFile: join(given.dataDir, 'temporal', 'temporal.db'),
      port: ports.temporal,
      uiPort: ports.temporalUi,
      searchAttributes,
      logFile: join(logDir, 'temporal.log'),
    }
    await run('stores', 'temporal', `Temporal on port ${ports.temporal}`, (signal, onSpawn) =>
      startTemporal({ ...options, signal, onSpawn }),
    )
    return { ...given.temporal, address: `127.0.0.1:${ports.temporal}`, uiUrl: `http://localhost:${ports.temporalUi}` }
  }

  const entrance = async () => {
    const binary = await findTool('caddy', tools)
    const { port, httpsPort } = given.http
    await run('entrance', 'caddy', `Caddy on ports ${port} and ${httpsPort}`, (signal, onSpawn) =>
      startCaddy(binary, served, logDir, signal, onSpawn),
    )
  }

  const stores = Promise.all([database(), temporal()])
  const build = timed('build tools', report, () => prepareBuildTools(given, place, tools))
  const completed = stores.then(([url, temporal]) => ({
    ...served,
    operatorToken: token.value,
    database: { ...given.database, url },
    temporal,
  }))
  const withBuild = Promise.all([completed, build]).then(([config, build]) => ({ ...config, build }))
  const main = async (role: Role, config: Promise<Config>) => {
    const complete = await config
    await run('processes', role, role, (signal, onSpawn) => startMainProcess(role, complete, logDir, signal, onSpawn))
  }
  await allOrNone(starting, [
    entrance(),
    stores,
    build,
    main('api', completed),
    main('edge', completed),
    main('worker', completed),
    main('runner', withBuild),
  ])
  const config = await withBuild
  report(await isolationLine(config.build.dir))
  const demo =
    settings.database.url === undefined ? await timed('demo site', report, () => openDemo(config, token.value)) : undefined
  starting.signal.throwIfAborted()
  outer.removeEventListener('abort', giveUp)
  const started = stack.move()
  return { config, operatorTokenFile: token.file, demo, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

/** Waits for all of them, also when one fails: what is starting has to be stopped. */
async function allOrNone(starting: AbortController, work: readonly Promise<unknown>[]): Promise<void> {
  for (const one of work) one.catch((error: unknown) => starting.abort(error))
  await Promise.allSettled(work)
  starting.signal.throwIfAborted()
}

async function disposeAll(services: readonly AsyncDisposable[]): Promise<void> {
  await Promise.all(services.map((service) => service[Symbol.asyncDispose]()))
}

async function timed<T>(title: string, report: (line: string) => void, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  report(`${title}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  return result
}

/** The operator's token, or the one that the first start generated. */
async function openOperatorToken({ operatorToken, dataDir }: Config): Promise<{ value: string; file: string | undefined }> {
  if (operatorToken !== undefined) return { value: operatorToken, file: undefined }
  const file = join(dataDir, 'operator-token')
  return { value: await openSecret(file, 'base64url'), file }
}

async function openSecretKey({ secretKey, dataDir }: Config): Promise<Uint8Array> {
  const file = join(dataDir, 'secret-key')
  return secretKey ?? parseSecretKey(await openSecret(file, 'base64'), file)
}
