import { datesOf, type Period } from '../../core/stats-period.ts'
import type { Db } from '../../infra/db/database.ts'

const counters = [
  'views',
  'visitors',
  'bytes',
  'human_views',
  'human_visitors',
  'human_bytes',
  'form_submissions',
  'publishes',
] as const

/** What a site had on one day, or on several days together. */
export type StatsCounts = Readonly<Record<(typeof counters)[number], number>>
export type StatsDay = StatsCounts & { readonly date: string }

const nothing = Object.fromEntries(counters.map((name) => [name, 0])) as StatsCounts

/** Every day of the period, in order; days on which nothing happened have zeros. */
export async function readStatsDays(db: Db, siteId: string, period: Period): Promise<StatsDay[]> {
  const traffic = await db
    .selectFrom('traffic_days')
    .select(['day', 'views', 'visitors', 'bytes', 'human_views', 'human_visitors', 'human_bytes'])
    .where('site_id', '=', siteId)
    .where('day', '>=', period.from)
    .where('day', '<=', period.to)
    .execute()
  const activity = await db
    .selectFrom('activity_days')
    .select(['day', 'form_submissions', 'publishes'])
    .where('site_id', '=', siteId)
    .where('day', '>=', period.from)
    .where('day', '<=', period.to)
    .execute()
  const trafficByDay = byDay(traffic)
  const activityByDay = byDay(activity)
  return datesOf(period).map((date) => {
    const { day: _, ...counts } = { ...nothing, ...trafficByDay.get(date), ...activityByDay.get(date), day: date }
    return { date, ...counts }
  })
}

const byDay = <Row extends { readonly day: string }>(rows: readonly Row[]) => new Map(rows.map((row) => [row.day, row]))

export const sumOf = (days: readonly StatsDay[]): StatsCounts =>
  Object.fromEntries(counters.map((name) => [name, days.reduce((sum, day) => sum + day[name], 0)])) as StatsCounts
