import { LRUCache } from 'lru-cache'
import type { Client, NotedRequest } from './hit.ts'
import type { Latin1Buffer } from './ring.ts'

/** A power of two. With the strings each takes about a kilobyte. */
const maxKnownRequests = 4096
/** Longer ones, of which there are few, are not remembered. */
const maxKnownWords = 192
const maxKnownClients = 5000

interface Memory {
  readonly integers: Uint32Array
  readonly shorts: Uint16Array
  readonly bytes: Latin1Buffer
}

// behind status, flags and the lengths of target and referrer
const lengthsOffset = 8
const textOffset = 16

/**
 * Reads noted requests between two positions of a memory, which are multiples of four. A page and its parts are asked for by the same few clients
 * again and again, so equal bytes are recognised without making strings of them.
 */
export function createRequestReader({ integers, shorts, bytes }: Memory): (at: number, end: number) => NotedRequest {
  const known: (NotedRequest | undefined)[] = Array.from({ length: maxKnownRequests })
  /** The words of each known one. Another one with the same slot replaces it. */
  const knownWords = new Uint32Array(maxKnownRequests * maxKnownWords)
  const clients = new LRUCache<string, Client>({ max: maxKnownClients })

  function isKnown(slot: number, word: number, count: number): boolean {
    const from = slot * maxKnownWords
    for (let i = 0; i < count; i++) if (knownWords[from + i] !== integers[word + i]) return false
    return true
  }

  /** The lengths of its texts and the texts are one stretch of bytes. */
  function clientOf(at: number, end: number): Client {
    const key = bytes.latin1Slice(at + lengthsOffset, end)
    const found = clients.get(key)
    if (found) return found
    let text = at + textOffset
    const next = (length = 0) => {
      text += length
      return bytes.latin1Slice(text - length, text)
    }
    const short = at >> 1
    const client = {
      siteId: next(shorts[short + 4]),
      host: next(shorts[short + 5]),
      userAgent: next(shorts[short + 6]),
      address: next(shorts[short + 7]),
    }
    clients.set(key, client)
    return client
  }

  function requestOf(at: number): NotedRequest {
    const short = at >> 1
    const number = (n: number) => shorts[short + n] ?? 0
    const targetAt = at + textOffset + number(4) + number(5) + number(6) + number(7)
    const refererAt = targetAt + number(2)
    return {
      status: number(0),
      flags: number(1),
      client: clientOf(at, targetAt),
      target: bytes.latin1Slice(targetAt, refererAt),
      referer: bytes.latin1Slice(refererAt, refererAt + number(3)),
    }
  }

  return (at, end) => {
    const word = at >> 2
    const count = (end - at) >> 2
    if (count > maxKnownWords) return requestOf(at)
    let hash = count
    for (let i = word; i < word + count; i++) hash = Math.imul(hash ^ (integers[i] ?? 0), 0x9e3779b1) ^ (hash >>> 15)
    const slot = (hash ^ (hash >>> 16)) & (maxKnownRequests - 1)
    const found = known[slot]
    if (found && isKnown(slot, word, count)) return found
    const request = requestOf(at)
    known[slot] = request
    const from = slot * maxKnownWords
    for (let i = 0; i < count; i++) knownWords[from + i] = integers[word + i] ?? 0
    return request
  }
}
