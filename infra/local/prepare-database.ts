import { ConfigError } from '../config.ts'
import { isDatabaseAway } from '../db/errors.ts'
import { type DatabaseState, inspectDatabase } from '../db/inspect.ts'

const oldestMajor = 18

/**
 * Brings the schema of a database to the newest version.
 * @throws ConfigError when the server does not answer, or is older than PostgreSQL 18
 */
export async function prepareDatabase(url: string): Promise<void> {
  const { version, isMigrated } = await inspect(url)
  if (Number.parseInt(version, 10) < oldestMajor) {
    throw new ConfigError(
      `PLINTH_DATABASE_URL: the server at ${new URL(url).host} is PostgreSQL ${version}; Plinth needs PostgreSQL 18 or newer`,
    )
  }
  if (isMigrated) return
  const [{ openDatabase }, { migrate }] = await Promise.all([import('../db/database.ts'), import('../db/migrate.ts')])
  await using database = openDatabase(url)
  await migrate(database.db)
}

async function inspect(url: string): Promise<DatabaseState> {
  try {
    return await inspectDatabase(url)
  } catch (cause) {
    const why = isDatabaseAway(cause) ? 'does not answer' : `refuses the connection (${(cause as Error).message})`
    throw new ConfigError(`PLINTH_DATABASE_URL: the server at ${new URL(url).host} ${why}`, { cause })
  }
}
