import { join } from 'node:path'
import { type Migration, Migrator } from 'kysely/migration'
import type { Db } from './database.ts'
import { listMigrations, migrationsDir } from './inspect.ts'

/**
 * Brings the schema to the newest version; safe to call from many processes at once (advisory lock).
 * Needs a direct connection, not a transaction-mode pooler.
 */
export async function migrate(db: Db): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: readMigrations } })
  const { error } = await migrator.migrateToLatest()
  if (error) throw error
}

async function readMigrations(): Promise<Record<string, Migration>> {
  const load = async (name: string) => [name, (await import(join(migrationsDir, `${name}.ts`))) as Migration] as const
  return Object.fromEntries(await Promise.all((await listMigrations()).map(load)))
}
