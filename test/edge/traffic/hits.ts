import type { Hit } from '../../../edge/traffic/ring.ts'
import { hitFlags } from '../../../edge/traffic/ring.ts'

export const chrome =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'
export const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1'

/** A view of `/` by a browser on a desktop. */
export const hitOf = (more: Partial<Hit> = {}): Hit => ({
  atMs: Date.parse('2026-03-01T12:00:00Z'),
  status: 200,
  flags: hitFlags.page | hitFlags.acceptsLanguage,
  bytes: 100,
  siteId: '01890000-0000-7000-8000-000000000001',
  host: 'site.plinth.test',
  target: '/',
  userAgent: chrome,
  referer: '',
  address: '192.0.2.1',
  ...more,
})
