import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { rollUpTraffic } from '../../services/feeds/roll-up-traffic.ts'
import type { Services } from '../../services/services.ts'
import type { StatsActivities } from '../contract/stats.ts'

/** The roll-up of statistics. */
export const createStatsActivities = (services: Services): StatsActivities => ({
  rollUpStats: () =>
    withHeartbeat(async () => {
      const { keys, days, old_days } = await rollUpTraffic(services)
      if (keys + days + old_days > 0) services.log.info({ keys, days, old_days }, 'statistics rolled up')
      return `forgot ${count(keys)} keys of visitors, rolled up ${count(days)} days of sites, deleted ${count(old_days)}`
    }),
})

const count = (n: number) => n.toLocaleString('en')
