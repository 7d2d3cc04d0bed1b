import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { databaseUrl, templateDatabase } from './global-setup.ts'

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  /** Ends every connection to the database and refuses new ones, as a server that is restarting does. */
  forbidConnections(forbidden: boolean): Promise<void>
}

async function run(...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: inject('postgres') })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

/** A migrated database of its own, dropped at the end. */
export async function createDatabase(): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await run(`create database ${name} template ${templateDatabase} strategy file_copy`)
  return {
    url: databaseUrl(inject('postgres'), name),
    async forbidConnections(forbidden) {
      await run(`alter database ${name} with allow_connections ${!forbidden}`)
      // and waits: on a busy machine a server process lives on for a while, and its connection would break under a later query
      if (forbidden) await run(`select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = '${name}'`)
    },
    [Symbol.asyncDispose]: () => run(`drop database ${name} with (force)`),
  }
}
