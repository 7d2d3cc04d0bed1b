import { readable } from '../../core/emails.ts'
import { conflict, invalid, paymentRequired } from '../../core/errors.ts'
import { freeSubdomainLength } from '../../core/limits.ts'
import { claimLimit, type PlanName, planAllows, planFor, planTitle, upgradeLifts } from '../../core/plans.ts'
import { isShortSubdomain } from '../../core/subdomain-names.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { countSites } from './sites.ts'
import { countHeldSubdomains, type HeldNames } from './subdomains.ts'

/** @throws AppError `payment_required` when a higher plan allows more sites, else `conflict` */
export async function checkSiteQuota(db: Db, { config }: Services, project: ProjectRow): Promise<void> {
  const limit = config.plans[project.plan].sites
  if (limit === null || (await countSites(db, project.id)) < limit) return
  const message = `the ${planTitle(project.plan)} plan allows ${limit} sites: delete one`
  throw upgradeLifts(config.plans, project.plan, 'sites')
    ? paymentRequired(`${message} or change the plan`, 'quota_sites')
    : conflict(message, 'quota_sites')
}

/**
 * Limits the names that a project holds: a name stays reserved for weeks after its site, so repeated creating and deleting would hold any
 * number of them. A name that the project already holds does not count again.
 * @throws AppError `conflict`
 */
export async function checkHeldSubdomains(
  tx: Tx,
  { config, clock }: Services,
  project: ProjectRow,
  wanted: string,
): Promise<void> {
  const limit = claimLimit(config.plans[project.plan].sites)
  if (limit === null) return
  const held = await countHeldSubdomains(tx, { project_id: project.id, subdomain: wanted }, { limit, now: clock() })
  if (held.count >= limit) throw tooManyHeld('subdomains, with those of deleted sites', project.plan, limit, held)
}

export function tooManyHeld(what: string, plan: PlanName, limit: number, { count, next_free_at }: HeldNames) {
  const wait = next_free_at ? `wait until ${readable(next_free_at)}` : 'delete one'
  return conflict(
    `the project holds ${count} ${what}, and the ${planTitle(plan)} plan allows ${limit}: take one of its own again, or ${wait}`,
    'quota_names',
  )
}

/** @throws AppError `invalid` when the name is too short for the plan */
export function requirePlanFor(subdomain: string, plan: PlanName): void {
  if (!isShortSubdomain(subdomain) || planAllows(plan, 'short_subdomain')) return
  throw invalid(
    `subdomains of fewer than ${freeSubdomainLength} characters need the ${planFor('short_subdomain')} plan or higher`,
    'plan_short_subdomain',
  )
}

/** @throws AppError `payment_required` when the plan has no permanent links */
export function requirePlanForPermanentLinks(plan: PlanName): void {
  if (planAllows(plan, 'permanent_links')) return
  throw paymentRequired(`permanent links need the ${planFor('permanent_links')} plan or higher`, 'plan_permanent_links')
}
