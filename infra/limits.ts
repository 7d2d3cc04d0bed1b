// The limits of one process, which cost no query. Those that hold over all processes are in `services/rates.ts`.

/** Why an amount is refused: the payer has reached its limit, or too little is left of the shared total. */
export type Exhausted = 'payer' | 'server'

/** Limits what is under way at once. */
export interface Budget {
  /** Takes an amount; undefined when it was taken. `limit` is the most that the payer may hold. */
  take(payer: string, limit: number, amount: number): Exhausted | undefined
  give(payer: string, amount: number): void
  heldBy(payer: string): number
  readonly held: number
}

/**
 * An amount that payers share. A payer may hold up to its limit, but never more than is still free (dynamic thresholds, Choudhury and Hahne
 * 1998): a payer that takes all it can leaves as much as it holds, so there is always something left for one that holds little.
 * @param total unlimited when absent
 */
export function createBudget(total = Number.POSITIVE_INFINITY): Budget {
  const holdings = new Map<string, number>()
  let held = 0
  return {
    take(payer, limit, amount) {
      const own = (holdings.get(payer) ?? 0) + amount
      if (own > limit) return 'payer'
      if (own > total - held) return 'server'
      holdings.set(payer, own)
      held += amount
      return undefined
    },
    give(payer, amount) {
      const own = (holdings.get(payer) ?? 0) - amount
      if (own > 0) holdings.set(payer, own)
      else holdings.delete(payer)
      held -= amount
    },
    heldBy: (payer) => holdings.get(payer) ?? 0,
    get held() {
      return held
    },
  }
}

/** Limits how often something happens in a minute. */
export interface Counter {
  /** Counts one. Returns until when the key is blocked, once it has reached the limit: then this one was too many. */
  count(key: string, now: Date): Date | undefined
  /** Blocks a key, of which another process has found that it is used up. */
  block(key: string, until: Date): void
  /** Until when the key is blocked; undefined when it is not. */
  blockedUntil(key: string, now: Date): Date | undefined
}

const periodMs = 60_000
const maxKeys = 20_000

interface Entry {
  until: number
  since: number
  counted: number
}

/** Counts by key for a minute each, from the first one on. It remembers the 20,000 keys that have changed last. */
export function createCounter(limit: number): Counter {
  /** In the order of their latest change. */
  const entries = new Map<string, Entry>()

  function entryOf(key: string): Entry {
    const entry = entries.get(key) ?? { until: 0, since: 0, counted: 0 }
    entries.delete(key)
    entries.set(key, entry)
    const [oldest] = entries.keys()
    if (entries.size > maxKeys && oldest !== undefined) entries.delete(oldest)
    return entry
  }

  function blockedUntil(key: string, now: Date): Date | undefined {
    const entry = entries.get(key)
    // a block that is further away comes from a clock that was set back
    const isBlocked = entry && entry.until > now.getTime() && entry.until <= now.getTime() + periodMs
    return isBlocked ? new Date(entry.until) : undefined
  }

  return {
    count(key, now) {
      const blocked = blockedUntil(key, now)
      const entry = entryOf(key)
      const isOver = Math.abs(now.getTime() - entry.since) >= periodMs
      if (isOver) Object.assign(entry, { since: now.getTime(), counted: 0 })
      entry.counted += 1
      if (entry.counted >= limit) entry.until = Math.max(entry.until, entry.since + periodMs)
      return blocked
    },
    block(key, until) {
      entryOf(key).until = until.getTime()
    },
    blockedUntil,
  }
}
