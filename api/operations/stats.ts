import { z } from 'zod'
import { csvLine } from '../../core/csv.ts'
import { maxPeriodDays, periodOf } from '../../core/stats-period.ts'
import { readStatsDays, type StatsDay, sumOf } from '../../services/stats/days.ts'
import { readLiveStats } from '../../services/stats/live.ts'
import { readTops } from '../../services/stats/tops.ts'
import { operation } from '../operation.ts'
import { site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { date, LiveStats, SiteStats, SiteTops, topsView } from '../views/stats.ts'

const tag = 'Stats'

const period = {
  days: z
    .int()
    .min(1)
    .max(maxPeriodDays)
    .optional()
    .describe('How many days up to today; 30 when no period is given. Not together with from and to.'),
  from: date.optional().describe('The first day, a date in Moscow. Needs to.'),
  to: date.optional().describe(`The last day, a date in Moscow, at most ${maxPeriodDays} days after the first. Needs from.`),
}

export const get_site_stats = operation({
  id: 'get_site_stats',
  title: 'Get the statistics of a site',
  summary:
    'Gets views, visitors, bytes, form submissions and publishes of a site by day, and their sums. Days begin at midnight in Moscow; human_ means without what programs requested. With format=csv REST sends the days as CSV.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/stats',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id, ...period }),
  load: siteOfCaller,
  output: SiteStats,
  errors: [400],
  handler: async (ctx, input, site) => {
    const { from, to } = periodOf(input, ctx.clock())
    const days = await readStatsDays(ctx.db, site.id, { from, to })
    return { from, to, timezone: 'Europe/Moscow' as const, days, summary: sumOf(days) }
  },
  csv: async (ctx, input, site) => {
    const days = await readStatsDays(ctx.db, site.id, periodOf(input, ctx.clock()))
    return { name: 'stats.csv', text: csvOf(days) }
  },
})

const columns = Object.keys(SiteStats.shape.days.element.shape) as (keyof StatsDay)[]

const csvOf = (days: readonly StatsDay[]) =>
  [columns, ...days.map((day) => columns.map((column) => String(day[column])))].map(csvLine).join('')

export const get_site_stats_tops = operation({
  id: 'get_site_stats_tops',
  title: 'Get the tops of a site',
  summary:
    'Gets the pages, sources, downloads, missing paths, devices and reasons to take a visitor for a program that have the most hits in a period: at most 100 of each, none with fewer than 5 hits.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/stats/tops',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id, ...period }),
  load: siteOfCaller,
  output: SiteTops,
  errors: [400],
  handler: async (ctx, input, site) => {
    const { from, to } = periodOf(input, ctx.clock())
    return { from, to, ...topsView(await readTops(ctx.db, site.id, { from, to })) }
  },
})

export const get_site_stats_live = operation({
  id: 'get_site_stats_live',
  title: 'Watch a site live',
  summary:
    'Streams who is on a site as server-sent events: live {visitors, paths} at once and within 5 seconds of each change, with the visitors of the last five minutes and the paths that had at least 5 hits in them, and finally end {reason}: max_age after an hour, key_revoked or site_deleted.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/stats/live',
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: LiveStats,
  handler: async (ctx, _input, site) => await readLiveStats(ctx.db, site.id, ctx.clock()),
  events: (ctx, _input, site, { signal }) => ctx.liveFollowers.follow(site, { keyId: ctx.caller.key.id, signal }),
  streamsByDefault: true,
})
