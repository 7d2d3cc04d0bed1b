/** Why an amount is refused: the payer has all that it may have, or too little is left of what all share. */
export type Exhausted = 'payer' | 'server'

export interface Budget {
  /** Undefined when it was taken. `limit` is what the payer may hold. */
  take(payer: string, limit: number, amount: number): Exhausted | undefined
  give(payer: string, amount: number): void
  readonly held: number
}

/**
 * An amount that payers share. A payer may hold its limit, but never more than is still free (dynamic thresholds, Choudhury and Hahne
 * 1998): one that takes all it can leaves as much as it has, so there is always something for a payer who holds little.
 */
export function createBudget(total: number): Budget {
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
    get held() {
      return held
    },
  }
}
