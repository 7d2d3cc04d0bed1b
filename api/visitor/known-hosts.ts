import { setTimeout as pause } from 'node:timers/promises'
import { unavailable } from '../../core/errors.ts'

/** How many hosts are remembered; one takes about 200 bytes. */
const maxKnown = 50_000
/** How long, because hosts can be removed from their sites. */
const knownMs = 600_000
/** How many hosts wait for the next look-up at most; looking all of them up takes less than 0.1 s. */
const maxWaiting = 10_000
const lookUpGapMs = 1000

export interface KnownHosts {
  /**
   * Whether a site has the host, or had it within the last ten minutes.
   * @throws AppError `unavailable` when too many unknown hosts are asked for, and whatever the look-up throws
   */
  has(host: string): Promise<boolean>
}

/**
 * Remembers the hosts of sites, so that invented ones cost the database next to nothing: those that are not remembered are looked up together,
 * at most once in `gapMs`, which is a second by default. The first is looked up at once.
 */
export function createKnownHosts(
  findKnown: (hosts: readonly string[]) => Promise<ReadonlySet<string>>,
  gapMs = lookUpGapMs,
): KnownHosts {
  /** Until when each is remembered, the oldest first. */
  const known = new Map<string, number>()
  let waiting = new Set<string>()
  let next: Promise<ReadonlySet<string>> | undefined
  let lookedUpAt = Number.NEGATIVE_INFINITY

  function remember(host: string): void {
    known.delete(host)
    known.set(host, performance.now() + knownMs)
    for (const oldest of known.keys()) {
      if (known.size <= maxKnown) break
      known.delete(oldest)
    }
  }

  async function lookUp(): Promise<ReadonlySet<string>> {
    await pause(Math.max(0, lookedUpAt + gapMs - performance.now()))
    lookedUpAt = performance.now()
    const hosts = [...waiting]
    waiting = new Set()
    next = undefined
    const found = await findKnown(hosts)
    for (const host of found) remember(host)
    return found
  }

  /** Those whose visitors stay away are forgotten; the others are looked up again before they would wait for it. */
  function renew(host: string): void {
    if (waiting.size >= maxWaiting) return
    waiting.add(host)
    next ??= lookUp()
    // a failure is no matter: the host is still remembered, and its next visitor tries again
    next.catch(() => undefined)
  }

  return {
    async has(host) {
      const leftMs = (known.get(host) ?? 0) - performance.now()
      if (leftMs > 0 && leftMs < knownMs / 2) renew(host)
      if (leftMs > 0) return true
      if (waiting.size >= maxWaiting && !waiting.has(host))
        throw unavailable('too many unknown hosts are asked for; try again in a second', 1, 'busy')
      waiting.add(host)
      next ??= lookUp()
      return (await next).has(host)
    },
  }
}
