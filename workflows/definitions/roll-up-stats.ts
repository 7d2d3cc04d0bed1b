import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { StatsActivities } from '../contract/stats.ts'

const work = proxyActivities<StatsActivities>({
  summary: 'roll up the days that are over',
  startToCloseTimeout: '50m',
  heartbeatTimeout: '1m',
  retry: { initialInterval: '5s', maximumInterval: '1m', maximumAttempts: 5 },
})

/** Makes the statistics of past days small, and keeps the salts of visitors. The result is for operators. */
export async function rollUpStats(): Promise<string> {
  setCurrentDetails('⏳ rolling up the days that are over')
  const done = await work.rollUpStats()
  setCurrentDetails(`✅ ${done}`)
  upsertMemo({ outcome: done })
  return done
}
