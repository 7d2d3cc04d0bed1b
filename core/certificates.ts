const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Orders at once whose first try has not ended; later orders wait. */
export const maxOrdersTrying = 10
/** An order that takes longer than this no longer counts against that limit. */
export const orderTurnMs = hourMs
/** Let's Encrypt accepts 300 orders of an account in this time. The rest is left for retries. */
export const orderWindowMs = 3 * hourMs
export const maxOrdersPerWindow = 200

/** The owner of a domain is notified when an order has failed this many times: the first failures are usual while DNS is set up. */
export const triesBeforeNotice = 3
/** An order that has not succeeded is given up after this time. */
export const orderPatienceMs = 30 * dayMs
/** How long after giving up the next order begins. */
export const afterGivingUpMs = 7 * dayMs

/** Let's Encrypt refuses a host for an hour after this many failed validations. */
const maxFailuresPerHour = 5
/** Tries that are postponed because the preflight check failed; then the authority is asked all the same. */
export const maxFailedChecks = 2

/** The pauses after the first, second and later failures, in units of the shortest one (minutes, up to six hours). */
const pauses = [1, 2, 2, 5, 10, 10, 10, 20, 20, 20, 30, 30, 30, 60, 60, 120, 180, 360]

export interface FailedTries {
  /** How many tries have failed. */
  readonly tries: number
  /** When the authority itself refused, oldest first, in milliseconds. */
  readonly refusedAtMs: readonly number[]
}

/** When the order is retried, in milliseconds. */
export function nextTryAt(failed: FailedTries, nowMs: number, shortestPauseMs: number): number {
  const step = pauses[Math.min(failed.tries, pauses.length) - 1] ?? 1
  return Math.max(nowMs + step * shortestPauseMs, soonestTryAt(failed))
}

/** The authority may not be asked before this instant, even after a change. */
export function soonestTryAt({ refusedAtMs }: Pick<FailedTries, 'refusedAtMs'>): number {
  const first = refusedAtMs.at(-maxFailuresPerHour)
  return first === undefined ? 0 : first + hourMs
}

/** The pause before the next request to an authority that was unreachable or timed out. */
export const unreachablePauseMs = (attempt: number, shortestPauseMs: number) =>
  Math.min(2 ** (attempt - 1) * (shortestPauseMs / 12), 10 * shortestPauseMs)

/**
 * When a certificate is renewed: after two thirds of its lifetime, less a random share, so that certificates issued on one day spread out.
 * @param random 0 to 1
 */
export function renewalAt(notBefore: Date, notAfter: Date, random: number): Date {
  const lifetimeMs = notAfter.getTime() - notBefore.getTime()
  return new Date(notBefore.getTime() + lifetimeMs * (2 / 3 - random / 30))
}

/** Whether a certificate expires so soon that a failed renewal needs the operator. */
export const isEnding = (notAfter: Date | null, now: Date) => notAfter !== null && notAfter.getTime() < now.getTime() + 7 * dayMs
