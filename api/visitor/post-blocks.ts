import { type Posting, type RateBlock, rateKeys } from '../../services/forms/rates.ts'

/** Refusals of one key in a minute after which further posts with it are refused without being looked at. */
const maxRefusals = 60
const periodMs = 60_000
const maxKeys = 20_000

interface Entry {
  until: number
  since: number
  refusals: number
}

/**
 * What this process remembers of sites and addresses that get no further post through, so that a flood costs it neither a query nor the body.
 * PostgreSQL decides who has used up a rate; here it is only remembered until when. It also counts refused posts, each of which costs a query.
 */
export interface PostBlocks {
  /** The block of the site or of the address; undefined when neither is blocked. */
  find(posting: Posting, now: Date): RateBlock | undefined
  block(block: RateBlock): void
  countRefusal(key: string, now: Date): void
}

export function createPostBlocks(): PostBlocks {
  /** In the order of their latest change. */
  const entries = new Map<string, Entry>()

  function entryOf(key: string): Entry {
    const entry = entries.get(key) ?? { until: 0, since: 0, refusals: 0 }
    entries.delete(key)
    entries.set(key, entry)
    const [oldest] = entries.keys()
    if (entries.size > maxKeys && oldest !== undefined) entries.delete(oldest)
    return entry
  }

  function blockOf(key: string, now: Date): RateBlock | undefined {
    const entry = entries.get(key)
    // a block that is further away comes from a clock that was set back
    const isBlocked = entry && entry.until > now.getTime() && entry.until <= now.getTime() + periodMs
    return isBlocked ? { key, until: new Date(entry.until) } : undefined
  }

  return {
    find(posting, now) {
      const { site, address } = rateKeys(posting)
      return blockOf(site, now) ?? blockOf(address, now)
    },
    block({ key, until }) {
      entryOf(key).until = until.getTime()
    },
    countRefusal(key, now) {
      const entry = entryOf(key)
      const isOver = Math.abs(now.getTime() - entry.since) >= periodMs
      if (isOver) Object.assign(entry, { since: now.getTime(), refusals: 0 })
      entry.refusals += 1
      if (entry.refusals >= maxRefusals) entry.until = entry.since + periodMs
    },
  }
}
