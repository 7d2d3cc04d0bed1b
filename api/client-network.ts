import type { IncomingMessage } from 'node:http'
import { networkOf } from '../core/client-network.ts'

/** The client's network, the key of limits per address. Caddy is the only peer, and sets the header to exactly one address. */
export const clientNetwork = ({ headers, socket }: IncomingMessage): string =>
  networkOf(String(headers['x-forwarded-for'] || socket.remoteAddress || ''))
