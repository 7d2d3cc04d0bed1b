import type { Context as Koa } from 'koa'
import { networkOf } from '../core/client-network.ts'

/** The client's network, the key of limits per address. Caddy is the only peer, and sets the header to exactly one address. */
export const clientNetwork = (koa: Koa): string => networkOf(koa.get('x-forwarded-for') || koa.ip)
