import { z } from 'zod'
import { maxPeriodDays } from '../../core/stats-period.ts'
import type { TopKind } from '../../core/traffic.ts'
import { maxLivePaths } from '../../services/stats/live.ts'
import { maxTopRows, minShownHits, type TopRow } from '../../services/stats/tops.ts'
import { writtenBy } from './authors.ts'

export const date = z.iso.date().meta({ maxLength: 10 })
const count = z.int().min(0)

const counts = {
  views: count.describe('Pages that were shown to anybody, programs included.'),
  visitors: count.describe('Visitors who saw a page, each counted once a day.'),
  bytes: count.describe('Bytes of everything that was sent.'),
  human_views: count.describe('Pages that were shown to people: what programs were recognised in is left out.'),
  human_visitors: count,
  human_bytes: count,
  form_submissions: count.describe('Form submissions that were received, without spam and hidden ones.'),
  publishes: count.describe('How often another deploy went live.'),
}

const period = {
  from: date.describe('The first day of the period.'),
  to: date.describe('The last day of the period.'),
}

export const SiteStats = z
  .object({
    ...period,
    timezone: z.literal('Europe/Moscow').describe('Where the days begin at midnight.'),
    days: z
      .array(z.object({ date, ...counts }))
      .max(maxPeriodDays + 1)
      .describe('Every day of the period, in order.'),
    summary: z.object(counts).describe('The sums of the days: somebody who came on two days counts as two visitors.'),
  })
  .meta({ id: 'SiteStats' })

const top = z
  .array(z.object({ value: writtenBy('visitors', z.string()), hits: z.int().min(minShownHits), visitors: count }))
  .meta({ maxItems: maxTopRows })

export const SiteTops = z
  .object({
    ...period,
    pages: top.describe('Paths of pages by their views.'),
    sources: top.describe('Sites that visitors came from by views; (direct) when their browser names none.'),
    downloads: top.describe('Paths of files that were downloaded.'),
    not_found: top.describe('Paths that were requested and do not exist.'),
    devices: top.describe('Kinds of devices by views.'),
    bot_reasons: top.describe('Why views were taken for those of programs.'),
  })
  .meta({ id: 'SiteTops' })

export const LiveStats = z
  .object({
    visitors: count.describe('Visitors of the last five minutes.'),
    paths: z
      .array(z.object({ path: writtenBy('visitors', z.string()), hits: z.int().min(minShownHits) }))
      .meta({ maxItems: maxLivePaths })
      .describe('Paths of pages of the last five minutes, the most hits first.'),
  })
  .meta({ id: 'LiveStats' })

export function topsView(tops: ReadonlyMap<TopKind, readonly TopRow[]>) {
  const rows = (kind: TopKind) => [...(tops.get(kind) ?? [])]
  return {
    pages: rows('page'),
    sources: rows('source'),
    downloads: rows('download'),
    not_found: rows('not_found'),
    devices: rows('device'),
    bot_reasons: rows('bot_reason'),
  }
}
