/** What the tops of a site list. */
export const topKinds = ['page', 'source', 'download', 'not_found', 'device', 'bot_reason'] as const
export type TopKind = (typeof topKinds)[number]

/** The value of all values together that a site and day have beyond {@link maxTopValues}. */
export const otherValues = '(other)'
/** The value of views without a referring site. */
export const directSource = '(direct)'
/** Values of one kind that a site keeps of the running day. A visitor can invent any number of paths, referrers and programs. */
export const maxTopValues = 1000
/** Values are cut to this many characters. */
export const maxTopValueLength = 256

/**
 * 12 bytes in hex, made of a salted visitor and of what the visitor is counted for. Equal keys of one day are counted once, whatever edge and
 * segment they come from. Without the salt of the day, which is deleted after it, nobody can compare a key with an address.
 */
export type SeenKey = string

/** What one site had of one day since the last segment. */
export interface SiteTraffic {
  readonly site_id: string
  /** The date in Moscow, YYYY-MM-DD. */
  readonly day: string
  readonly views: number
  readonly bytes: number
  readonly human_views: number
  readonly human_bytes: number
  readonly visitors: readonly SeenKey[]
  readonly human_visitors: readonly SeenKey[]
  readonly tops: readonly TopTraffic[]
}

export interface TopTraffic {
  readonly kind: TopKind
  readonly value: string
  readonly hits: number
  readonly visitors: readonly SeenKey[]
}

/** What a site had lately, for its live view. It may be lost. */
export interface LiveTraffic {
  readonly site_id: string
  /** The salted visitors themselves, 12 bytes in hex. */
  readonly visitors: readonly string[]
  readonly paths: readonly { readonly path: string; readonly hits: number }[]
}

/** The content of a segment: what an edge counted within about a quarter of a second. */
export interface TrafficBatch {
  /** When it was counted, in milliseconds. */
  readonly at: number
  /** The hits that the edge could not count since its start. */
  readonly dropped_hits?: number
  readonly sites: readonly SiteTraffic[]
  readonly live: readonly LiveTraffic[]
}
