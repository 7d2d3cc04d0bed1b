import type { IncomingMessage } from 'node:http'
import { networkOf } from '../core/client-network.ts'

/** Downloads of large files by one address at once. Each holds an open file and a connection for as long as its visitor reads or pauses. */
export const maxDownloadsOfAddress = 256

export interface Downloads {
  /**
   * Counts a download until the returned function is called.
   * @returns undefined when the address has reached its limit
   */
  start(request: IncomingMessage): (() => void) | undefined
}

export function createDownloads(): Downloads {
  const counts = new Map<string, number>()
  return {
    start(request) {
      const client = clientOf(request)
      const count = counts.get(client) ?? 0
      if (count >= maxDownloadsOfAddress) return undefined
      counts.set(client, count + 1)
      return () => {
        const rest = (counts.get(client) ?? 0) - 1
        if (rest > 0) counts.set(client, rest)
        else counts.delete(client)
      }
    },
  }
}

/** Caddy is the only peer, and sets the header to exactly one address. */
function clientOf({ headers, socket }: IncomingMessage): string {
  const [forwarded = ''] = [headers['x-forwarded-for']].flat()
  return networkOf(forwarded || (socket.remoteAddress ?? ''))
}
