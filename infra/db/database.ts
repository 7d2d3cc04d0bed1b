import { setMaxListeners } from 'node:events'
import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient, PostgresQueryCompiler, sql } from 'kysely'
import pg from 'pg'
import type { DB } from './schema.ts'
import { namesOfProcess, type StatementNames, sendStatement } from './statements.ts'

/** The pool or a transaction; every query function takes one first. */
export type Db = Kysely<DB>

/** Waits until a connection may be taken, and returns a function that reports its release. The signal ends the wait with its reason. */
export type ConnectionPermit = (signal: AbortSignal) => Promise<() => void>

/** The same pool, with a permit for every connection. Making one costs microseconds; it need not be closed. */
export type ShareDatabase = (permit: ConnectionPermit) => Db

export interface OpenedDatabase extends AsyncDisposable {
  readonly db: Db
  readonly shareDatabase: ShareDatabase
}

export interface DatabaseOptions {
  /** The time limit of every statement. */
  readonly queryTimeoutMs?: number
  /** How long a statement may wait for a lock; by default as long as the statement may take. */
  readonly lockTimeoutMs?: number
  /** Of the statements that its connections prepare; by default they share those of the process. */
  readonly names?: StatementNames
}

/**
 * Opens a pool. Acquiring a connection and every statement are bounded, so that a PostgreSQL that is away
 * answers as an error within seconds.
 */
export function openDatabase(url: string, options: DatabaseOptions = {}): OpenedDatabase {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    connectionTimeoutMillis: 2000,
    statement_timeout: 30_000,
    // for a server that accepts connections but does not answer; otherwise the server's own limit applies
    query_timeout: options.queryTimeoutMs ?? 35_000,
    idle_in_transaction_session_timeout: 30_000,
    ...(options.lockTimeoutMs === undefined ? {} : { lock_timeout: options.lockTimeoutMs }),
    application_name: 'plinth',
  })
  // an idle connection that breaks is replaced by the pool; without a listener it would end the process
  pool.on('error', () => undefined)
  // a connection that breaks between two statements of a transaction fails the next statement
  pool.on('connect', (client) => client.on('error', () => undefined))
  const silence = createSilence()
  const { names = namesOfProcess } = options
  const share = (permit?: ConnectionPermit) => {
    const dialect = new PostgresDialect({ pool: impatient({ pool, silence, names }, permit) })
    return new Kysely<DB>({ dialect: Object.assign(dialect, { createQueryCompiler: () => compiler }) })
  }
  return { db: share(), shareDatabase: share, [Symbol.asyncDispose]: () => pool.end() }
}

/** One for all, because it compiles a query in one go, and making it binds a hundred functions. */
const compiler = new PostgresQueryCompiler()

/** Ends all waits for a permit when a query has just found that PostgreSQL does not answer. */
function createSilence() {
  const endableWaits = () => {
    const waits = new AbortController()
    // one listener for each request that waits
    setMaxListeners(0, waits.signal)
    return waits
  }
  let waits = endableWaits()
  return {
    signal: () => waits.signal,
    report(error: unknown): void {
      const ending = waits
      waits = endableWaits()
      ending.abort(error)
    },
  }
}

const isSilent = (error: unknown) =>
  error instanceof Error && /read timeout|timeout exceeded|connection timeout/.test(error.message)

interface Opened {
  readonly pool: pg.Pool
  readonly silence: ReturnType<typeof createSilence>
  readonly names: StatementNames
}

/**
 * The pool for the dialect. When PostgreSQL does not answer, the first query that times out ends all other waits: otherwise the waits for a
 * permit, the rollback of the same connection and its next user would each time out, one after the other. The owner of the pool closes it.
 */
function impatient({ pool, silence, names }: Opened, permit?: ConnectionPermit): PostgresPool {
  const learn = (error: unknown) => {
    if (isSilent(error)) silence.report(error)
  }
  return {
    options: pool.options,
    end: async () => undefined,
    async connect() {
      const giveBack = await permit?.(silence.signal())
      try {
        const client = await pool.connect()
        return withRelease({ client, names }, learn, () => giveBack?.())
      } catch (error) {
        giveBack?.()
        learn(error)
        throw error
      }
    },
  }
}

function withRelease(
  { client, names }: { readonly client: pg.PoolClient; readonly names: StatementNames },
  learn: (error: unknown) => void,
  giveBack: () => void,
): PostgresPoolClient {
  let silent: unknown
  const query = async (text: string, values: readonly unknown[]) => {
    if (silent !== undefined) throw silent
    try {
      return await sendStatement(client, names, text, values)
    } catch (error) {
      if (isSilent(error)) silent = error
      learn(error)
      throw error
    }
  }
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release(destroy) {
      client.release(destroy === true || silent !== undefined)
      giveBack()
    },
  }
}

/**
 * When the transaction began, by PostgreSQL's clock. Changes that are due at a later instant use this clock: by the clock of an api that is
 * hours behind, they would be due at once.
 */
export async function databaseTime(tx: Db): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now()`.execute(tx)
  const [row] = rows
  if (!row) throw new Error('PostgreSQL did not say what time it is')
  return row.now
}
