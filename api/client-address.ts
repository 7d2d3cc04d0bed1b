import type { Context as Koa } from 'koa'

/** Caddy is the only peer, and sets this header to exactly one address. */
export const clientAddress = (koa: Koa): string => koa.get('x-forwarded-for') || koa.ip
