import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { DomainActivities } from '../contract/domains.ts'

const recheck = proxyActivities<DomainActivities>({
  summary: 'look for the TXT records of verified domains',
  startToCloseTimeout: '50m',
  heartbeatTimeout: '1m',
  retry: { initialInterval: '5s', maximumInterval: '1m', maximumAttempts: 5 },
})

/** Checks whether verified domains still belong to their owners. The result is for operators. */
export async function recheckDomains(): Promise<string> {
  setCurrentDetails('⏳ looking for the TXT records of verified domains')
  const found = await recheck.recheckDomains()
  setCurrentDetails(`✅ ${found}`)
  upsertMemo({ outcome: found })
  return found
}
