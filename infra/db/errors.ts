const awayCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'ETIMEDOUT', 'EPIPE', '57P01', '57P02', '57P03'])
const awayMessages =
  /timeout exceeded when trying to connect|Connection terminated|Query read timeout|not queryable|not currently accepting connections/

/** Whether a statement waited for a lock longer than allowed. */
export const isLockTimeout = (error: unknown): boolean => error instanceof Error && (error as { code?: unknown }).code === '55P03'

/** Whether a query failed because PostgreSQL is stopped, restarting, full or silent, so that the same query may succeed later. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code, syscall } = error as Error & { code?: string; syscall?: string }
  // connection exceptions, and insufficient resources: disk full, out of memory, too many connections
  if (code?.startsWith('08') || code?.startsWith('53')) return true
  if (code && awayCodes.has(code)) return code !== 'ENOENT' || syscall === 'connect'
  return awayMessages.test(error.message)
}
