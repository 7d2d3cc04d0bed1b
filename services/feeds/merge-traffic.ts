import {
  maxTopValueLength,
  otherValues,
  type SeenKey,
  type SiteTraffic,
  type TopKind,
  type TopTraffic,
  type TrafficBatch,
  topKinds,
} from '../../core/traffic.ts'
import { isUuid } from '../../core/uuid.ts'

/** What one site had of one day in several segments. */
export interface MergedDay {
  readonly site_id: string
  readonly day: string
  views: number
  bytes: number
  human_views: number
  human_bytes: number
  readonly visitors: Set<SeenKey>
  readonly human_visitors: Set<SeenKey>
  readonly tops: Map<string, MergedTop>
}

export interface MergedTop {
  readonly kind: TopKind
  readonly value: string
  hits: number
  readonly visitors: Set<SeenKey>
}

/** Far more than one segment can count. */
const maxCount = 2 ** 48
const date = /^\d{4}-\d{2}-\d{2}$/
/** The form of keys and of visitors. */
export const seenKey = /^[0-9a-f]{24}$/

/**
 * Adds up what several segments counted of each site and day.
 * @throws RangeError when no edge could have counted this
 */
export function mergeDays(batches: readonly TrafficBatch[]): MergedDay[] {
  const days = new Map<string, MergedDay>()
  for (const site of batches.flatMap((batch) => batch.sites)) {
    if (!isUuid(site.site_id) || !isDate(site.day)) throw new RangeError('a segment names no site or no day')
    const id = `${site.site_id} ${site.day}`
    const day = days.get(id) ?? emptyDay(site)
    days.set(id, day)
    addDay(day, site)
  }
  return [...days.values()]
}

const isDate = (text: string) => date.test(text) && !Number.isNaN(Date.parse(text))

const emptyDay = ({ site_id, day }: SiteTraffic): MergedDay => ({
  site_id,
  day,
  views: 0,
  bytes: 0,
  human_views: 0,
  human_bytes: 0,
  visitors: new Set(),
  human_visitors: new Set(),
  tops: new Map(),
})

function addDay(day: MergedDay, site: SiteTraffic): void {
  for (const counter of ['views', 'bytes', 'human_views', 'human_bytes'] as const) day[counter] += checkedCount(site[counter])
  addKeys(day.visitors, site.visitors)
  addKeys(day.human_visitors, site.human_visitors)
  for (const top of site.tops) addTop(day.tops, top)
}

function addTop(tops: Map<string, MergedTop>, { kind, value, hits, visitors }: TopTraffic): void {
  if (!topKinds.includes(kind)) throw new RangeError('a segment counts something unknown')
  const stored = storedText(value)
  const id = `${kind} ${stored}`
  const top: MergedTop = tops.get(id) ?? { kind, value: stored, hits: 0, visitors: new Set() }
  tops.set(id, top)
  top.hits += checkedCount(hits)
  // a visitor of two of the other values would count twice
  if (stored !== otherValues) addKeys(top.visitors, visitors)
}

function checkedCount(count: number): number {
  if (!Number.isSafeInteger(count) || count < 0 || count > maxCount) throw new RangeError('a segment has an impossible count')
  return count
}

function addKeys(all: Set<SeenKey>, keys: readonly SeenKey[]): void {
  for (const key of keys) {
    if (!seenKey.test(key)) throw new RangeError('a segment has an impossible key')
    all.add(key)
  }
}

/** A text as PostgreSQL can store it: values that are stored alike have to be equal before. */
export const storedText = (value: string): string => value.slice(0, maxTopValueLength).toWellFormed().replaceAll('\0', '')
