import type { IncomingMessage } from 'node:http'
import { networkOf } from '../core/client-network.ts'
import { createBudget } from '../infra/limits.ts'

/**
 * Requests of one address that wait at once, for the storage or for a visitor who does not read. Those that memory answers are not counted, so
 * that an office behind one address stays far below it. It is above the limit of downloads, so that large files never keep an address from small
 * ones.
 */
export const maxRequestsOfAddress = 512
/** Downloads of large files by one address at once. Each holds an open file and a connection for as long as its visitor reads or pauses. */
export const maxDownloadsOfAddress = 256

/** Limits what each client address has under way at once. */
export interface ClientLimit {
  /**
   * Counts something until the returned function is called.
   * @returns undefined when the address has reached its limit
   */
  start(request: IncomingMessage): (() => void) | undefined
  /** Whether the address has reached its limit. */
  isFull(request: IncomingMessage): boolean
}

export function createClientLimit(most: number): ClientLimit {
  const budget = createBudget()
  return {
    // costs nothing while nobody waits
    isFull: (request) => budget.held > 0 && budget.heldBy(clientOf(request)) >= most,
    start(request) {
      const client = clientOf(request)
      if (budget.take(client, most, 1)) return undefined
      return () => budget.give(client, 1)
    },
  }
}

const clientOf = (request: IncomingMessage) => networkOf(clientAddress(request))

/** Caddy is the only peer, and sets the header to exactly one address. Requests without it, which come from this machine, count as one address. */
export function clientAddress({ headers, socket }: IncomingMessage): string {
  const forwarded = headers['x-forwarded-for']
  return (typeof forwarded === 'string' && forwarded) || (socket.remoteAddress ?? '')
}
