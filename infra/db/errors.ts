import pg from 'pg'

const awayCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'ETIMEDOUT', 'EPIPE', '57P01', '57P02', '57P03'])
const awayMessages =
  /timeout exceeded when trying to connect|Connection terminated|Query read timeout|not queryable|not currently accepting connections/

/** Whether a statement waited for a lock longer than allowed. */
export const isLockTimeout = (error: unknown): boolean => error instanceof Error && (error as { code?: unknown }).code === '55P03'

/**
 * Classes of SQLSTATE in which a statement fails for what it says: data that does not fit, a constraint, a missing table, a value that is too
 * large. It fails again however often it is repeated, unless other rows were to blame.
 */
const refusedClasses = new Set(['0A', '21', '22', '23', '42', '44', '54'])

/** The SQLSTATE with which PostgreSQL refuses a statement for what it says; undefined for all other errors, which may heal by themselves. */
export function refusalState(error: unknown): string | undefined {
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return undefined
  return refusedClasses.has(error.code.slice(0, 2)) ? error.code : undefined
}

/** Whether a query failed because PostgreSQL is stopped, restarting, full or silent, so that the same query may succeed later. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code, syscall } = error as Error & { code?: string; syscall?: string }
  // connection exceptions, and insufficient resources: disk full, out of memory, too many connections
  if (code?.startsWith('08') || code?.startsWith('53')) return true
  if (code && awayCodes.has(code)) return code !== 'ENOENT' || syscall === 'connect'
  return awayMessages.test(error.message)
}
