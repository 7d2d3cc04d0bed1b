import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { SeenKey, TopKind } from '../../core/traffic.ts'
import { maxPagesPerSecond } from '../../core/traffic-hits.ts'
import type { Client } from './hit.ts'
import type { DaySalts } from './salts.ts'

/** Somebody at one site on one day. */
export interface Visitor {
  /** 12 bytes in hex. */
  readonly id: string
  /** Whether they looked for weaknesses today. */
  isProbing: boolean
  /** The second of the latest page, and the pages in it. */
  second: number
  pages: number
}

export interface Visitors {
  of(day: string, client: Client): Visitor
  /** Counts a page. @returns whether the visitor opens them faster than a person */
  isTooFast(visitor: Visitor, atMs: number): boolean
  /** The key under which the visitor counts for something; undefined when it was sent today already, as far as this thread remembers. */
  newKey(visitor: Visitor, what: 'visitor' | 'human' | TopKind, value?: string): SeenKey | undefined
  /** Forgets everybody, because a salt has changed. */
  clear(): void
}

/** Visitors that are remembered. Each takes about half a kilobyte. */
const maxKnown = 20_000
/** Keys in each of two generations; each takes about a hundred bytes. PostgreSQL counts a key once, however often it comes. */
const maxSentKeys = 40_000
/** 12 bytes in hex. */
const keyLength = 24

export function createVisitors(salts: DaySalts): Visitors {
  const known = new LRUCache<string, Visitor>({ max: maxKnown })
  /** The latest visitor of each client that the ring remembers. */
  let ofClients = new WeakMap<Client, { readonly day: string; readonly visitor: Visitor }>()
  let sent = new Set<SeenKey>()
  let sentBefore: ReadonlySet<SeenKey> = new Set()

  function visitorOf(day: string, { siteId, address, userAgent }: Client): Visitor {
    const who = `${day}\n${siteId}\n${address}\n${userAgent}`
    const found = known.get(who)
    if (found) return found
    // the salt is of one length and the hash is cut, so this is as good as an HMAC, whose keys take ten times as long to set up
    const id = hash('sha256', `${salts.of(day).toString('hex')}\n${who}`, 'hex').slice(0, keyLength)
    const visitor = { id, isProbing: false, second: 0, pages: 0 }
    known.set(who, visitor)
    return visitor
  }

  return {
    of(day, client) {
      const latest = ofClients.get(client)
      if (latest?.day === day) return latest.visitor
      const visitor = visitorOf(day, client)
      ofClients.set(client, { day, visitor })
      return visitor
    },
    isTooFast(visitor, atMs) {
      const second = Math.floor(atMs / 1000)
      visitor.pages = visitor.second === second ? visitor.pages + 1 : 1
      visitor.second = second
      return visitor.pages > maxPagesPerSecond
    },
    newKey({ id }, what, value = '') {
      const key = hash('sha256', `${id} ${what} ${value}`, 'hex').slice(0, keyLength)
      if (sent.has(key) || sentBefore.has(key)) return undefined
      if (sent.size >= maxSentKeys) {
        sentBefore = sent
        sent = new Set()
      }
      sent.add(key)
      return key
    },
    clear() {
      ofClients = new WeakMap()
      known.clear()
    },
  }
}
