import { ConfigError } from '../config.ts'
import { type Db, isDatabaseAway, migrate, openDatabase } from '../db/database.ts'
import { readServerVersion } from '../db/health.ts'

const oldestMajor = 18

/**
 * Brings the schema of a database to the newest version.
 * @throws ConfigError when the server does not answer, or is older than PostgreSQL 18
 */
export async function prepareDatabase(url: string): Promise<void> {
  await using database = openDatabase(url)
  await requireVersion(database.db, new URL(url))
  await migrate(database.db)
}

async function requireVersion(db: Db, { host }: URL): Promise<void> {
  let version: string
  try {
    version = await readServerVersion(db)
  } catch (cause) {
    const why = isDatabaseAway(cause) ? 'does not answer' : `refuses the connection (${(cause as Error).message})`
    throw new ConfigError(`PLINTH_DATABASE_URL: the server at ${host} ${why}`, { cause })
  }
  if (Number.parseInt(version, 10) >= oldestMajor) return
  throw new ConfigError(
    `PLINTH_DATABASE_URL: the server at ${host} is PostgreSQL ${version}; Plinth needs PostgreSQL 18 or newer`,
  )
}
