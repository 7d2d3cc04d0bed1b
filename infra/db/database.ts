import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import pg from 'pg'
import type { DB } from './schema.ts'

/** The pool or a transaction; every query function takes one first. */
export type Db = Kysely<DB>
export type Tx = Transaction<DB>

// bigint columns hold byte counts and versions, all far below 2^53
pg.types.setTypeParser(pg.types.builtins.INT8, Number)
// a date column is a calendar day, not an instant
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text)

export interface OpenedDatabase extends AsyncDisposable {
  readonly db: Db
}

/**
 * Opens a pool. Acquiring a connection and every statement are bounded, so that a PostgreSQL that is away
 * answers as an error within seconds.
 */
export function openDatabase(url: string, options: { readonly queryTimeoutMs?: number } = {}): OpenedDatabase {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    connectionTimeoutMillis: 2000,
    statement_timeout: 30_000,
    // for a server that is there but silent; the statement's own limit is the server's
    query_timeout: options.queryTimeoutMs ?? 35_000,
    idle_in_transaction_session_timeout: 30_000,
    application_name: 'plinth',
  })
  // an idle connection that breaks is replaced by the pool; without a listener it would end the process
  pool.on('error', () => undefined)
  // one that breaks between two statements of a transaction fails the next statement
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db: Db = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) })
  return { db, [Symbol.asyncDispose]: () => db.destroy() }
}

const migrationsDir = join(import.meta.dirname, 'migrations')

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
  const files = (await readdir(migrationsDir)).filter((file) => file.endsWith('.ts')).sort()
  const load = async (file: string) =>
    [file.replace(/\.ts$/, ''), (await import(join(migrationsDir, file))) as Migration] as const
  return Object.fromEntries(await Promise.all(files.map(load)))
}

const awayCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'ETIMEDOUT', 'EPIPE', '57P01', '57P02', '57P03'])
const awayMessages =
  /timeout exceeded when trying to connect|Connection terminated|Query read timeout|not queryable|not currently accepting connections/

/** Whether a query failed because PostgreSQL is stopped, restarting, full or silent, so that the same query may succeed later. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code, syscall } = error as Error & { code?: string; syscall?: string }
  // connection exceptions, and insufficient resources: disk full, out of memory, too many connections
  if (code?.startsWith('08') || code?.startsWith('53')) return true
  if (code && awayCodes.has(code)) return code !== 'ENOENT' || syscall === 'connect'
  return awayMessages.test(error.message)
}
