import type { TrafficBatch } from '../../core/traffic.ts'
import {
  type LiveTraffic,
  maxTopValues,
  otherValues,
  type SiteTraffic,
  type TopKind,
  type TopTraffic,
} from '../../core/traffic.ts'
import type { Classified } from './classify.ts'
import type { Visitor, Visitors } from './visitors.ts'

interface Top {
  hits: number
  readonly visitors: Set<Visitor>
}

interface SiteTally {
  readonly siteId: string
  readonly day: string
  views: number
  bytes: number
  humanViews: number
  humanBytes: number
  readonly visitors: Set<Visitor>
  readonly humanVisitors: Set<Visitor>
  readonly tops: Map<TopKind, Map<string, Top>>
}

/** Sums up what hits count for. Its size is bounded by the number of hits that are added to it. */
export interface Tally {
  add(hit: Classified): void
  /** @param atMs when it was counted */
  batch(atMs: number, visitors: Pick<Visitors, 'newKey'>): TrafficBatch
}

export function createTally(): Tally {
  /** By site, then by day: around midnight a site has two. */
  const sites = new Map<string, SiteTally[]>()

  function tallyOf(siteId: string, day: string): SiteTally {
    const days = sites.get(siteId) ?? []
    for (const known of days) if (known.day === day) return known
    const sums = { views: 0, bytes: 0, humanViews: 0, humanBytes: 0 }
    const tally = { siteId, day, ...sums, visitors: new Set<Visitor>(), humanVisitors: new Set<Visitor>(), tops: new Map() }
    days.push(tally)
    sites.set(siteId, days)
    return tally
  }

  return {
    add(hit) {
      // HEAD and redirects, which change nothing
      if (hit.counted === 'nothing' && hit.bytes === 0) return
      const tally = tallyOf(hit.siteId, hit.day)
      tally.bytes += hit.bytes
      if (hit.reason === undefined) tally.humanBytes += hit.bytes
      if (hit.counted === 'view') addView(tally, hit)
      else if (hit.counted !== 'nothing') addTop(tally, hit.counted, hit.path, hit.visitor)
    },
    batch(atMs, visitors) {
      const tallies = [...sites.values()]
      return { at: atMs, sites: tallies.flat().map((tally) => trafficOf(tally, visitors)), live: tallies.flatMap(liveOf) }
    },
  }
}

function addView(tally: SiteTally, { reason, visitor, path, source, device }: Classified): void {
  tally.views += 1
  tally.visitors.add(visitor)
  if (reason === undefined) {
    tally.humanViews += 1
    tally.humanVisitors.add(visitor)
  } else {
    addTop(tally, 'bot_reason', reason, visitor)
  }
  addTop(tally, 'page', path, visitor)
  addTop(tally, 'source', source, visitor)
  addTop(tally, 'device', device, visitor)
}

function addTop({ tops }: SiteTally, kind: TopKind, value: string, visitor: Visitor): void {
  const top = tops.get(kind)?.get(value) ?? newTop(tops, kind, value)
  top.hits += 1
  top.visitors.add(visitor)
}

/** The entry of a value that has none yet, which is that of all others when there are too many. */
function newTop(tops: SiteTally['tops'], kind: TopKind, wanted: string): Top {
  const values = tops.get(kind) ?? new Map<string, Top>()
  tops.set(kind, values)
  const value = values.size < maxTopValues ? wanted : otherValues
  const top = values.get(value) ?? { hits: 0, visitors: new Set<Visitor>() }
  values.set(value, top)
  return top
}

type Keys = Pick<Visitors, 'newKey'>

const newKeys = (keys: Keys, who: Iterable<Visitor>, what: Parameters<Keys['newKey']>[1], value?: string) =>
  [...who].map((visitor) => keys.newKey(visitor, what, value)).filter((key) => key !== undefined)

function trafficOf(tally: SiteTally, keys: Keys): SiteTraffic {
  const { siteId, day, views, bytes, humanViews, humanBytes, visitors, humanVisitors } = tally
  const tops = [...tally.tops].flatMap(([kind, values]) =>
    [...values].map(
      ([value, top]): TopTraffic => ({ kind, value, hits: top.hits, visitors: newKeys(keys, top.visitors, kind, value) }),
    ),
  )
  return {
    site_id: siteId,
    day,
    views,
    bytes,
    human_views: humanViews,
    human_bytes: humanBytes,
    visitors: newKeys(keys, visitors, 'visitor'),
    human_visitors: newKeys(keys, humanVisitors, 'human'),
    tops,
  }
}

/** The views of a site; around midnight those of two days together. */
function liveOf(tallies: readonly SiteTally[]): LiveTraffic[] {
  const [first] = tallies
  const visitors = new Set(tallies.flatMap((tally) => [...tally.visitors].map(({ id }) => id)))
  if (!first || visitors.size === 0) return []
  const hits = new Map<string, number>()
  for (const { tops } of tallies) {
    for (const [path, top] of tops.get('page') ?? []) hits.set(path, (hits.get(path) ?? 0) + top.hits)
  }
  return [{ site_id: first.siteId, visitors: [...visitors], paths: [...hits].map(([path, hits]) => ({ path, hits })) }]
}
