import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'

export interface DatabaseState {
  /** Of the server, such as `18.4`. */
  readonly version: string
  /** Whether the schema is the newest one. */
  readonly isMigrated: boolean
}

/**
 * What a start has to know of a database. It is asked without the query builder, which would take 9 MiB of the launcher for good, and
 * 0.2 s before anything else can start.
 */
export async function inspectDatabase(url: string): Promise<DatabaseState> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000, query_timeout: 10_000 })
  await client.connect()
  try {
    const { rows: versions } = await client.query<{ server_version: string }>('show server_version')
    const applied = await readApplied(client)
    return { version: versions[0]?.server_version ?? '', isMigrated: isDeepStrictEqual(applied, await listMigrations()) }
  } finally {
    await client.end()
  }
}

async function readApplied(client: pg.Client): Promise<string[]> {
  const { rows: tables } = await client.query<{ table: string | null }>(`select to_regclass('kysely_migration') as table`)
  if (tables[0]?.table == null) return []
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration')
  return rows.map(({ name }) => name).sort()
}

export const migrationsDir = join(import.meta.dirname, 'migrations')

/** The names of all migrations, in their order. */
export async function listMigrations(): Promise<string[]> {
  const files = (await readdir(migrationsDir)).filter((file) => file.endsWith('.ts'))
  return files.map((file) => file.replace(/\.ts$/, '')).sort()
}
