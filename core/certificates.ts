const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Orders under way at once whose first try has not ended; later ones wait for their turn. */
export const maxOrdersTrying = 10
/** An order that takes longer than this does not keep others from beginning. */
export const orderTurnMs = hourMs
/** Let's Encrypt takes 300 orders of an account in this time. The rest is for orders that are tried again. */
export const orderWindowMs = 3 * hourMs
export const maxOrdersPerWindow = 200

/** An order that does not succeed is given up after this. */
export const orderPatienceMs = 30 * dayMs
/** How long after that the next one begins. */
export const afterGivingUpMs = 7 * dayMs

/** Let's Encrypt refuses a host for an hour after this many failed validations. */
const maxFailuresPerHour = 5
/** As many tries are put off because the proof would not be found; then the authority is asked all the same. */
export const maxFailedChecks = 2

/** Pauses after the first failure, the second and so on, in units of the shortest: minutes, up to six hours. */
const pauses = [1, 2, 2, 5, 10, 10, 10, 20, 20, 20, 30, 30, 30, 60, 60, 120, 180, 360]

export interface FailedTries {
  /** How many tries have failed. */
  readonly tries: number
  /** Those at which the authority itself refused, oldest first, in milliseconds. */
  readonly refusedAtMs: readonly number[]
}

/** When a certificate is tried for again, in milliseconds. */
export function nextTryAt(failed: FailedTries, nowMs: number, shortestPauseMs: number): number {
  const step = pauses[Math.min(failed.tries, pauses.length) - 1] ?? 1
  return Math.max(nowMs + step * shortestPauseMs, soonestTryAt(failed))
}

/** Before this the authority may not be asked, whatever has changed. */
export function soonestTryAt({ refusedAtMs }: Pick<FailedTries, 'refusedAtMs'>): number {
  const first = refusedAtMs.at(-maxFailuresPerHour)
  return first === undefined ? 0 : first + hourMs
}

/** The pause before the next request to an authority that could not be asked, or did not end. */
export const unreachablePauseMs = (attempt: number, shortestPauseMs: number) =>
  Math.min(2 ** (attempt - 1) * (shortestPauseMs / 12), 10 * shortestPauseMs)

/**
 * When two thirds of the lifetime are over, and a little earlier, so that certificates of one day do not stay together for ever.
 * @param random 0 to 1
 */
export function renewalAt(notBefore: Date, notAfter: Date, random: number): Date {
  const lifetimeMs = notAfter.getTime() - notBefore.getTime()
  return new Date(notBefore.getTime() + lifetimeMs * (2 / 3 - random / 30))
}

/** A certificate that ends so soon and could not be renewed is a matter for the operator. */
export const isEnding = (notAfter: Date | null, now: Date) => notAfter !== null && notAfter.getTime() < now.getTime() + 7 * dayMs
