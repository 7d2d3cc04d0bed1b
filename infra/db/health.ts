import { sql } from 'kysely'
import type { Db } from './database.ts'

/** Rejects when PostgreSQL does not answer. */
export async function pingDatabase(db: Db): Promise<void> {
  await sql`select 1`.execute(db)
}

/** The version of the PostgreSQL server, such as `18.4`. */
export async function readServerVersion(db: Db): Promise<string> {
  const { rows } = await sql<{ server_version: string }>`show server_version`.execute(db)
  return rows[0]?.server_version ?? ''
}
