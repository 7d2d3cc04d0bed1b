import { join } from 'node:path'
import { searchAttributes } from '../../core/search-attributes.ts'
import type { Role } from '../config/setting.ts'
import type { Config } from '../config.ts'
import { startCaddy } from './caddy-process.ts'
import { startMainProcess } from './main-process.ts'
import { startPostgres } from './postgres.ts'
import type { Prepared } from './prepare.ts'
import { prepareDatabase } from './prepare-database.ts'
import { endVisitsAfterRestore } from './restored.ts'
import { type Start, supervise } from './supervisor.ts'
import { startTemporal } from './temporal.ts'
import { chooseUiAddress, openTemporalUi } from './temporal-ui.ts'
import { type FindToolOptions, findTool } from './tools.ts'

/** In the order in which they are started; they are stopped from the last to the first, so that nothing ends before what needs it. */
const groups = ['stores', 'processes', 'entrance'] as const
type Group = (typeof groups)[number]

export interface PartsOptions {
  readonly report: (line: string) => void
  /** Aborted when the whole start has failed or is not wanted any more. */
  readonly signal: AbortSignal
}

/** The parts of a start. Each is supervised from its first process on, and its time is reported. */
export interface Parts {
  /** Answers the address of the database, with its schema. */
  database(): Promise<string>
  temporal(): Promise<Config['temporal']>
  entrance(): Promise<void>
  main(role: Role, config: Promise<Config>): Promise<void>
}

/** @param resources stops the parts when it is disposed */
export function openParts(prepared: Prepared, resources: AsyncDisposableStack, options: PartsOptions): Parts {
  const { config, ports, logDir, records } = prepared
  const { report, signal } = options
  const tools: FindToolOptions = { cacheDir: config.cacheDir, report, signal }

  const running: Record<Group, AsyncDisposable[]> = { stores: [], processes: [], entrance: [] }
  for (const group of groups) resources.defer(() => disposeAll(running[group]))
  let isServing = false
  const run = (group: Group, name: string, title: string, start: Start) =>
    timed(title, report, async () => {
      running[group].push(await supervise(name, start, { records, report, logDir, signal, isServing: () => isServing }))
    })

  return {
    async database() {
      let { url } = config.database
      if (url === undefined) {
        const server = {
          dir: join(config.dataDir, 'postgres'),
          port: ports.postgres,
          logFile: join(logDir, 'postgres.log'),
          log: report,
        }
        await run('stores', 'postgres', `PostgreSQL on port ${ports.postgres}`, async (signal, onSpawn) => {
          const started = await startPostgres({ ...server, signal, onSpawn })
          url = started.url
          return started
        })
      }
      const ready = url as string
      await timed('database schema', report, () => prepareDatabase(ready))
      await endVisitsAfterRestore(config.dataDir, ready)
      return ready
    },

    async temporal() {
      if (config.temporal.address !== undefined) return config.temporal
      const ui = await chooseUiAddress()
      running.stores.push(await openTemporalUi(ports.temporalUi, ui))
      const server = {
        binary: await findTool('temporal', tools),
        dbFile: join(config.dataDir, 'temporal', 'temporal.db'),
        port: ports.temporal,
        ui,
        searchAttributes,
        logFile: join(logDir, 'temporal.log'),
      }
      await run('stores', 'temporal', `Temporal on port ${ports.temporal}`, (signal, onSpawn) =>
        startTemporal({ ...server, signal, onSpawn }),
      )
      return { ...config.temporal, address: `127.0.0.1:${ports.temporal}`, uiUrl: `http://localhost:${ports.temporalUi}` }
    },

    async entrance() {
      const binary = await findTool('caddy', tools)
      const { port, httpsPort } = config.http
      await run('entrance', 'caddy', `Caddy on ports ${port} and ${httpsPort}`, (signal, onSpawn) =>
        startCaddy(binary, config, logDir, signal, onSpawn),
      )
    },

    async main(role, completing) {
      const complete = await completing
      await run('processes', role, role, (signal, onSpawn) => {
        isServing ||= role === 'api'
        return startMainProcess(role, complete, logDir, signal, onSpawn)
      })
    },
  }
}

async function disposeAll(services: readonly AsyncDisposable[]): Promise<void> {
  await Promise.all(services.map((service) => service[Symbol.asyncDispose]()))
}

/** Reports how long it took. */
export async function timed<T>(title: string, report: (line: string) => void, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  report(`${title}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  return result
}
