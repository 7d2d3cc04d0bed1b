import { LRUCache } from 'lru-cache'

/** Bodies of large files that are in memory, and how often others were asked for lately. */
export interface LargeBodies {
  /** Counts a request. @returns the body when it is in memory */
  find(key: string): Buffer | undefined
  /**
   * Whether a body is worth its memory: it was asked for before, and clearly more often lately than each of those that would have to leave, and
   * those that have left before take no more memory than those that stay.
   * @param bytes its size
   */
  admits(key: string, bytes: number): boolean
  keep(key: string, body: Buffer): void
}

/** Files whose requests are counted. */
const maxCounted = 1000
/** After so many requests every count is halved, so that what was popular once gives way. */
const countedRequests = 10 * maxCounted

/**
 * Files that are asked for in turn, and too many for the memory, do not displace each other with every request: most of them are sent from the
 * disk each time, which costs less than reading them into memory and checking them (TinyLFU, Einziger, Friedman and Manes, 2017).
 */
export function openLargeBodies(maxBytes: number): LargeBodies {
  const counts = new LRUCache<string, { asked: number }>({ max: maxCounted })
  // visitors who read slowly keep what has left in memory: without a limit, many of them could keep any number of bodies there
  let leftBytes = 0
  const collected = new FinalizationRegistry<number>((bytes) => {
    leftBytes -= bytes
  })
  const bodies = new LRUCache<string, Buffer>({
    maxSize: maxBytes,
    sizeCalculation: (body) => body.length,
    dispose({ buffer, length }) {
      leftBytes += length
      // not the body, of which a response may hold a part only
      collected.register(buffer, length)
    },
  })
  let requests = 0

  const askedFor = (key: string) => counts.peek(key)?.asked ?? 0

  function count(key: string): void {
    const known = counts.get(key)
    if (known) known.asked += 1
    else counts.set(key, { asked: 1 })
    requests += 1
    if (requests < countedRequests) return
    requests = 0
    counts.forEach((each) => {
      each.asked >>= 1
    })
  }

  return {
    find(key) {
      count(key)
      return bodies.get(key)
    },
    admits(key, bytes) {
      const asked = askedFor(key)
      if (asked < 2 || bytes > maxBytes || leftBytes + bytes > maxBytes) return false
      let room = maxBytes - bodies.calculatedSize
      let isWanted = true
      // from the one that would leave first
      bodies.rforEach((body, other) => {
        if (room >= bytes) return
        room += body.length
        // files that are asked for in turn are one request ahead of each other
        if (askedFor(other) + 1 >= asked) isWanted = false
      })
      return isWanted
    },
    keep: (key, body) => void bodies.set(key, body),
  }
}
