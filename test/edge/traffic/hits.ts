import { type Client, type Hit, hitFlags, type NotedRequest } from '../../../edge/traffic/hit.ts'

export const chrome =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'
export const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1'

export type HitPart = Partial<Omit<Hit & NotedRequest & Client, 'request' | 'client'>>

/** A view of `/` by a browser on a desktop. */
export const hitOf = (more: HitPart = {}): Hit => ({
  atMs: more.atMs ?? Date.parse('2026-03-01T12:00:00Z'),
  bytes: more.bytes ?? 100,
  request: {
    status: more.status ?? 200,
    flags: more.flags ?? hitFlags.page | hitFlags.acceptsLanguage,
    client: {
      siteId: more.siteId ?? '01890000-0000-7000-8000-000000000001',
      host: more.host ?? 'site.plinth.test',
      userAgent: more.userAgent ?? chrome,
      address: more.address ?? '192.0.2.1',
    },
    target: more.target ?? '/',
    referer: more.referer ?? '',
  },
})
