import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { isVerified } from '../../core/domain-state.ts'
import { beginCertificate } from '../../services/certificates/begin.ts'
import { lookUpAllowance } from '../../services/domains/claims.ts'
import { postponeCheck, saveLookOfRun, settleDomain } from '../../services/domains/connect.ts'
import { findDomainOfRun } from '../../services/domains/connecting.ts'
import type { LookUpDomain } from '../../services/domains/look-up.ts'
import { takeAllowance } from '../../services/rates.ts'
import type { Services } from '../../services/services.ts'
import type { DomainActivities } from '../contract/domains.ts'

/** Waiting look-ups of a project come back within this time after there is one free. */
const spreadMs = 30_000

export interface DomainActivityDeps extends Services {
  readonly lookUpDomain: LookUpDomain
}

/** The steps by which a domain is connected. The row decides, so repeating one is harmless. */
export function createDomainActivities(deps: DomainActivityDeps): Omit<DomainActivities, 'recheckDomains'> {
  const { db, config, lookUpDomain, clock } = deps

  /** Looks later when the project has many domains to look up: no tenant fills the queue. */
  async function requireLookUp(project_id: string, now: Date): Promise<void> {
    const next = await takeAllowance(db, lookUpAllowance(project_id, config.dns.checkIntervalMs), now)
    if (!next) return
    throw ApplicationFailure.create({
      message: 'many domains of this project are looked up at present; this one is looked up soon',
      nextRetryDelay: next.getTime() - now.getTime() + Math.random() * spreadMs,
      category: ApplicationFailureCategory.BENIGN,
    })
  }

  return {
    async checkDomain({ look, pause_ms, ...run }) {
      const domain = await findDomainOfRun(db, run)
      if (!domain) return { state: 'stale' }
      if (isVerified(domain)) return { state: 'verified' }
      const now = clock()
      const next = new Date(now.getTime() + pause_ms)
      if (domain.trashed) return await postponeCheck(deps, run, 'the site is in the trash', next)
      const since = domain.looked_up_at && now.getTime() - domain.looked_up_at.getTime()
      const wasJustLooked = since !== null && since >= 0 && since < config.dns.checkIntervalMs
      if (!look || wasJustLooked) return await postponeCheck(deps, run, 'the DNS is looked up next time', next)
      await requireLookUp(domain.project_id, now)
      return await saveLookOfRun(deps, run, await lookUpDomain(domain), next)
    },

    beginCertificate: (run) => beginCertificate(deps, run),
    settleDomain: (run) => settleDomain(deps, run),
  }
}
