import { chmod, copyFile, cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { loadConfig } from '../infra/config.ts'
import { migrate, openDatabase } from '../infra/db/database.ts'
import { startPostgres } from '../infra/local/postgres.ts'
import { findTool } from '../infra/local/tools.ts'
import { cachedToolchain, installNodeToolchain } from '../infra/toolchain.ts'
import { bundleWorkflows } from '../workflows/worker.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Address of an empty database of a PostgreSQL server whose database `plinth_template` has the schema. */
    postgres: string
    /** Path of the Temporal CLI. */
    temporal: string
    workflowBundle: string
    /** bubblewrap, and Node 20 with npm where the users of builds can reach them. */
    buildTools: { readonly bwrap: string; readonly toolchain: string }
  }
}

export const templateDatabase = 'plinth_template'

/** Starts once for the whole run what every test file shares. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-test-'))
  // other users, of PostgreSQL and of builds, have to pass through
  await chmod(dir, 0o711)
  const server = await startPostgres({ dir: join(dir, 'postgres'), log: () => undefined })
  const admin = new pg.Client({ connectionString: server.url })
  await admin.connect()
  await admin.query(`create database ${templateDatabase}`)
  await admin.end()
  await using template = openDatabase(databaseUrl(server.url, templateDatabase))
  await migrate(template.db)
  const { cacheDir } = loadConfig()
  const report = (line: string) => process.stdout.write(`${line}\n`)
  const [temporal, , buildTools, bundle] = await Promise.all([
    findTool('temporal', { cacheDir, report }),
    // for those tests that start it: building it takes minutes when the cache is empty
    findTool('caddy', { cacheDir, report }),
    prepareBuildTools(cacheDir, dir, report),
    bundleWorkflows(),
  ])
  project.provide('postgres', server.url)
  project.provide('temporal', temporal)
  project.provide('buildTools', buildTools)
  project.provide('workflowBundle', bundle.code)
  return async () => {
    await server[Symbol.asyncDispose]()
    await rm(dir, { recursive: true, force: true })
  }
}

async function prepareBuildTools(cacheDir: string, dir: string, report: (line: string) => void) {
  const cached = cachedToolchain(cacheDir)
  const [found] = await Promise.all([
    findTool('bwrap', { cacheDir, report }),
    installNodeToolchain(cached, { npm: ['npm'], report }),
  ])
  const [toolchain, bwrap] = [join(dir, 'toolchain'), join(dir, 'bwrap')]
  await Promise.all([cp(cached, toolchain, { recursive: true, verbatimSymlinks: true }), copyFile(found, bwrap)])
  return { toolchain, bwrap }
}

export function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = name
  return url.href
}
