import { LRUCache } from 'lru-cache'
import type { Client, NotedRequest } from './hit.ts'
import { type RingMemory, recordBytes, requestOffset, requestShorts } from './ring-memory.ts'

/** A power of two. With the strings each takes about a kilobyte. */
const maxKnownRequests = 4096
/** Longer ones, of which there are few, are not remembered. */
const maxKnownWords = 192
const maxKnownClients = 5000

const textOffset = recordBytes - requestOffset
/** Where the lengths of the client's texts begin. */
const clientOffset = 2 * requestShorts.siteId

type Memory = Pick<RingMemory, 'integers' | 'shorts' | 'bytes'>

/**
 * Reads noted requests between two positions of a memory, which are multiples of eight. A page and its parts are asked for by the same few clients
 * again and again, so equal bytes are recognised without making strings of them.
 */
export function createRequestReader({ integers, shorts, bytes }: Memory): (at: number, end: number) => NotedRequest {
  const known: (NotedRequest | undefined)[] = Array.from({ length: maxKnownRequests })
  /** The words of each known one. Another one with the same slot replaces it. */
  const knownWords = new Uint32Array(maxKnownRequests * maxKnownWords)
  const clients = new LRUCache<string, Client>({ max: maxKnownClients })

  /** Of two halves, neither of which waits for the other. The number of words is even. */
  function hashOf(word: number, count: number): number {
    let even = count
    let odd = 0
    for (let i = word; i < word + count; i += 2) {
      even = Math.imul(even ^ (integers[i] ?? 0), 0x9e3779b1) ^ (even >>> 15)
      odd = Math.imul(odd ^ (integers[i + 1] ?? 0), 0x85ebca6b) ^ (odd >>> 15)
    }
    return even ^ odd
  }

  function isKnown(slot: number, word: number, count: number): boolean {
    const from = slot * maxKnownWords
    for (let i = 0; i < count; i++) if (knownWords[from + i] !== integers[word + i]) return false
    return true
  }

  /** The lengths of its texts and the texts are one stretch of bytes. */
  function clientOf(at: number, end: number): Client {
    const key = bytes.latin1Slice(at + clientOffset, end)
    const found = clients.get(key)
    if (found) return found
    let text = at + textOffset
    const next = (length = 0) => {
      text += length
      return bytes.latin1Slice(text - length, text)
    }
    const short = at >> 1
    const client = {
      siteId: next(shorts[short + requestShorts.siteId]),
      host: next(shorts[short + requestShorts.host]),
      userAgent: next(shorts[short + requestShorts.userAgent]),
      address: next(shorts[short + requestShorts.address]),
    }
    clients.set(key, client)
    return client
  }

  function requestOf(at: number): NotedRequest {
    const short = at >> 1
    const number = (name: keyof typeof requestShorts) => shorts[short + requestShorts[name]] ?? 0
    const targetAt = at + textOffset + number('siteId') + number('host') + number('userAgent') + number('address')
    const refererAt = targetAt + number('target')
    return {
      status: number('status'),
      flags: number('flags'),
      client: clientOf(at, targetAt),
      target: bytes.latin1Slice(targetAt, refererAt),
      referer: bytes.latin1Slice(refererAt, refererAt + number('referer')),
    }
  }

  return (at, end) => {
    const word = at >> 2
    const count = (end - at) >> 2
    if (count > maxKnownWords) return requestOf(at)
    const hash = hashOf(word, count)
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
