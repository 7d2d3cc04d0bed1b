import { conflict, secondsUntil, tooManyRequests } from '../../core/errors.ts'
import { maxDomainAddsPerHour } from '../../core/limits.ts'
import { claimLimit, planTitle } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import { takeAllowance } from '../rates.ts'
import type { Services } from '../services.ts'
import { tooManyHeld } from '../sites/quotas.ts'
import type { Tx } from '../transact.ts'
import { countClaimedDomains } from './claims.ts'
import { countDomains } from './domains.ts'

const hourMs = 3_600_000

/** @throws AppError `conflict` */
export async function checkDomainQuota(db: Db, { config }: Services, project: ProjectRow): Promise<void> {
  const limit = config.plans[project.plan].domains
  if (limit === null || (await countDomains(db, project.id)) < limit) return
  const allowed = limit === 1 ? '1 domain' : `${limit} domains`
  throw conflict(`the ${planTitle(project.plan)} plan allows ${allowed}: delete one or change the plan`, 'quota_domains')
}

/**
 * Limits the domains that a project adds: each was looked up and reserved for a while, even when it is deleted again.
 * @throws AppError `conflict`; `too_many_requests` for more than {@link maxDomainAddsPerHour}
 */
export async function checkDomainClaims(tx: Tx, { config, clock }: Services, project: ProjectRow, domain: string): Promise<void> {
  const now = clock()
  const limit = claimLimit(config.plans[project.plan].domains)
  if (limit !== null) {
    const held = await countClaimedDomains(tx, { project_id: project.id, domain }, { limit, now })
    if (held.count >= limit) throw tooManyHeld('domains, with those deleted in the last 30 days', project.plan, limit, held)
  }
  const adds = { project_id: project.id, kind: 'domain_adds', limit: maxDomainAddsPerHour, periodMs: hourMs }
  const next = await takeAllowance(tx, adds, now)
  if (!next) return
  throw tooManyRequests(
    `a project may add ${maxDomainAddsPerHour} domains an hour; add the others later`,
    secondsUntil(next, now),
    'rate_domains',
  )
}
