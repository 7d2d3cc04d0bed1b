import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { type Config, loadConfig } from '../infra/config.ts'
import { openDatabase } from '../infra/db/database.ts'
import { migrate } from '../infra/db/migrate.ts'
import { readNpmSettings } from '../infra/local/build-tools.ts'
import { startPostgres } from '../infra/local/postgres.ts'
import { startTemporal } from '../infra/local/temporal.ts'
import { findTool } from '../infra/local/tools.ts'
import { openToolchain, toolchainOptions } from '../infra/toolchain/toolchain.ts'
import { bundleWorkflows } from '../workflows/worker.ts'
import { quickFolder } from './quick-folder.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Address of an empty database of a PostgreSQL server whose database `plinth_template` has the schema. */
    postgres: string
    /** Path of the Temporal CLI. */
    temporal: string
    /** Of a Temporal server, where each test registers a namespace. */
    temporalAddress: string
    workflowBundle: string
    /** bubblewrap, and the folder of a toolchain, where the users of builds can reach them. */
    buildTools: {
      readonly bwrap: string
      readonly toolchain: string
      /** Settings with which builds reach the registry of this machine. */
      readonly registry: Readonly<Record<string, string>>
    }
  }
}

export const templateDatabase = 'plinth_template'

/** Starts once for the whole run what every test file shares. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-test-'))
  // other users, of PostgreSQL and of builds, have to pass through
  await chmod(dir, 0o711)
  const quickDir = await mkdtemp(join(await quickFolder(), 'plinth-test-'))
  await chmod(quickDir, 0o711)
  const server = await startPostgres({ dir: join(quickDir, 'postgres'), log: () => undefined })
  const admin = new pg.Client({ connectionString: server.url })
  await admin.connect()
  // no test ends this server or its machine, so no commit has to wait until the disk has it
  // and none keeps its rows for long enough that clearing up would pay
  for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum'])
    await admin.query(`alter system set ${setting} = off`)
  await admin.query('select pg_reload_conf()')
  await admin.query(`create database ${templateDatabase}`)
  await admin.end()
  await using template = openDatabase(databaseUrl(server.url, templateDatabase))
  await migrate(template.db)
  const config = loadConfig()
  const { cacheDir } = config
  // each process of tests would compile the same packages
  process.env['NODE_COMPILE_CACHE'] = join(cacheDir, 'compiled')
  const report = (line: string) => process.stdout.write(`${line}\n`)
  const [temporal, , buildTools, bundle] = await Promise.all([
    findTool('temporal', { cacheDir, report }),
    // for those tests that start it: building it takes minutes when the cache is empty
    findTool('caddy', { cacheDir, report }),
    prepareBuildTools(config, dir, report),
    bundleWorkflows(config),
  ])
  project.provide('postgres', server.url)
  const temporalServer = await startTemporal({ binary: temporal, searchAttributes: {}, logFile: join(dir, 'temporal.log') })
  project.provide('temporal', temporal)
  project.provide('temporalAddress', temporalServer.address)
  project.provide('buildTools', buildTools)
  project.provide('workflowBundle', bundle.code)
  return async () => {
    await temporalServer[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
    // the last test processes may still write what they compiled
    for (const made of [dir, quickDir]) await rm(made, { recursive: true, force: true, maxRetries: 10 })
  }
}

async function prepareBuildTools(config: Config, dir: string, report: (line: string) => void) {
  const [toolchain, bwrap] = [join(dir, 'toolchain'), join(dir, 'bwrap')]
  const [{ hosts, caFile }] = await Promise.all([
    readNpmSettings(config, dir),
    findTool('bwrap', { cacheDir: config.cacheDir, report }).then((found) => copyFile(found, bwrap)),
    openToolchain({ ...toolchainOptions(config), dir: toolchain }).get('node-20', { report }),
  ])
  const registry = { PLINTH_BUILD_EGRESS_HOSTS: hosts.join(), ...(caFile && { PLINTH_BUILD_CA_FILE: caFile }) }
  return { toolchain, bwrap, registry }
}

export function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = name
  return url.href
}
