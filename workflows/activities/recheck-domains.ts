import { heartbeat } from '@temporalio/activity'
import { listDueDomains } from '../../services/domains/connecting.ts'
import { type Recheck, recheckDomain } from '../../services/domains/recheck.ts'
import type { DomainActivities } from '../contract/domains.ts'
import type { DomainActivityDeps } from './domains.ts'

const batchSize = 10

/** The daily check of the ownership of verified domains. */
export function createRecheckActivities(deps: DomainActivityDeps): Pick<DomainActivities, 'recheckDomains'> {
  const { db, lookUpDomain, clock } = deps
  return {
    async recheckDomains() {
      const counts: Record<Recheck, number> = { proven: 0, missing: 0, lost: 0, unknown: 0 }
      const startedAt = clock()
      for (;;) {
        const due = await listDueDomains(db, startedAt, batchSize)
        const found = await Promise.all(due.map(async (domain) => recheckDomain(deps, domain, await lookUpDomain(domain))))
        for (const one of found) counts[one]++
        heartbeat(counts)
        if (due.length < batchSize) break
      }
      const { proven, missing, lost, unknown } = counts
      return `${proven} proven, ${missing} without a TXT record, ${lost} not verified any more, ${unknown} without an answer`
    },
  }
}
