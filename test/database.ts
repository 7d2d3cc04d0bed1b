import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { databaseUrl, templateDatabase } from './global-setup.ts'

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  /** Ends every connection to the database and refuses new ones, as a server that is restarting does. */
  forbidConnections(forbidden: boolean): Promise<void>
}

export interface CopiableDatabase extends TestDatabase {
  /** Copies the database. The returned function puts the copy in its place, as loading a dump does. Both end every connection. */
  backUp(): Promise<() => Promise<void>>
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
export async function createDatabase(): Promise<CopiableDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await run(`create database ${name} template ${templateDatabase} strategy file_copy`)
  async function forbidConnections(forbidden: boolean): Promise<void> {
    await run(`alter database ${name} with allow_connections ${!forbidden}`)
    // and waits: on a busy machine a server process lives on for a while, and its connection would break under a later query
    if (forbidden) await run(`select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = '${name}'`)
  }
  return {
    url: databaseUrl(inject('postgres'), name),
    forbidConnections,
    async backUp() {
      const copy = `${name}_copy`
      await forbidConnections(true)
      await run(`create database ${copy} template ${name} strategy file_copy`)
      await forbidConnections(false)
      return async () => {
        await forbidConnections(true)
        await run(`drop database ${name}`, `alter database ${copy} rename to ${name}`)
      }
    },
    [Symbol.asyncDispose]: () => run(`drop database ${name} with (force)`),
  }
}
