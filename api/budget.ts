/** Why an amount is refused: the payer has reached its limit, or too little is left of the shared total. */
export type Exhausted = 'payer' | 'server'

export interface Budget {
  /** Takes an amount; undefined when it was taken. `limit` is the most that the payer may hold. */
  take(payer: string, limit: number, amount: number): Exhausted | undefined
  give(payer: string, amount: number): void
  readonly held: number
}

/**
 * An amount that payers share. A payer may hold up to its limit, but never more than is still free (dynamic thresholds, Choudhury and Hahne
 * 1998): a payer that takes all it can leaves as much as it holds, so there is always something left for one that holds little.
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
