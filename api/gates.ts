import { conflict, paymentRequired, tooManyRequests } from '../core/errors.ts'
import { maxDomainAddsPerHour } from '../core/limits.ts'
import { readable } from '../core/mails.ts'
import { claimLimit, overStorageQuota, type PlanName, planAllows, planFor, planTitle, upgradeLifts } from '../core/plans.ts'
import type { Db, Tx } from '../infra/db/database.ts'
import { countClaimedDomains } from '../services/domains/claims.ts'
import { countDomains } from '../services/domains/domains.ts'
import { takeAllowance } from '../services/projects/allowances.ts'
import { buildMinutes, countDeploysSince } from '../services/projects/usage.ts'
import { countSites } from '../services/sites/sites.ts'
import { countHeldSubdomains, type HeldNames } from '../services/sites/subdomains.ts'
import { storageBytes } from '../services/storage/blobs.ts'
import type { Deps } from './context.ts'
import { suspended } from './invoke.ts'

const hourMs = 3_600_000

type Gatekeeper = Pick<Deps, 'config' | 'clock'>

interface GatedProject {
  readonly id: string
  readonly plan: PlanName
  readonly suspended: boolean
}

export interface DeployFacts {
  /** Bytes that the deploy adds to the project's storage, as far as known. */
  readonly addedBytes: number
  readonly activate: boolean
  /** What brings the bytes: uploads that began later do not count. */
  readonly upload?: string
}

/**
 * The gates of every deploy route, in the specification's order: storage (409), rate and build minutes (429), suspension (402),
 * previews (402). Exact when the project is locked, else an early refusal.
 */
export async function checkDeployGates(db: Db, ctx: Gatekeeper, project: GatedProject, facts: DeployFacts): Promise<void> {
  const quota = ctx.config.plans[project.plan]
  const now = ctx.clock()
  await checkStorage(db, ctx, project, facts)
  if (quota.deploys_per_hour !== null) {
    const { count, oldest } = await countDeploysSince(db, project.id, new Date(now.getTime() - hourMs))
    if (count >= quota.deploys_per_hour) {
      const waitMs = (oldest ?? now).getTime() + hourMs - now.getTime()
      throw tooManyRequests(
        `the ${planTitle(project.plan)} plan allows ${quota.deploys_per_hour} deploys an hour; wait or change the plan`,
        Math.max(1, Math.ceil(waitMs / 1000)),
      )
    }
  }
  if (quota.build_minutes_per_month !== null && (await buildMinutes(db, project.id, now)) >= quota.build_minutes_per_month) {
    throw tooManyRequests(
      `the ${quota.build_minutes_per_month} build minutes of the ${planTitle(project.plan)} plan are used up for this month; wait or change the plan`,
      Math.ceil((nextMonth(now) - now.getTime()) / 1000),
    )
  }
  if (project.suspended) throw suspended()
  checkPreviews(project.plan, facts.activate)
}

/** @throws AppError `payment_required` */
export function checkPreviews(plan: PlanName, activate: boolean): void {
  if (activate || planAllows(plan, 'previews')) return
  throw paymentRequired(`building without publishing needs the ${planFor('previews')} plan or higher`)
}

/** @throws AppError `conflict` */
export async function checkStorage(
  db: Db,
  ctx: Gatekeeper,
  project: Pick<GatedProject, 'id' | 'plan'>,
  { addedBytes, upload }: Pick<DeployFacts, 'addedBytes' | 'upload'>,
): Promise<void> {
  const quota = ctx.config.plans[project.plan].storage_bytes
  if (quota === null || (await storageBytes(db, project.id, { upload })) + addedBytes <= quota) return
  throw conflict(overStorageQuota(project.plan, quota))
}

/** @throws AppError `payment_required` when a higher plan allows more sites, else `conflict` */
export async function checkSiteQuota(db: Db, ctx: Gatekeeper, project: GatedProject): Promise<void> {
  const limit = ctx.config.plans[project.plan].sites
  if (limit === null || (await countSites(db, project.id)) < limit) return
  const message = `the ${planTitle(project.plan)} plan allows ${limit} sites: delete one`
  throw upgradeLifts(ctx.config.plans, project.plan, 'sites')
    ? paymentRequired(`${message} or change the plan`)
    : conflict(message)
}

/**
 * A name stays held for weeks after its site, so a project that creates and deletes would hold any number of them. A name that the
 * project holds already is no new one.
 * @throws AppError `conflict`
 */
export async function checkHeldSubdomains(tx: Tx, ctx: Gatekeeper, project: GatedProject, wanted: string): Promise<void> {
  const limit = claimLimit(ctx.config.plans[project.plan].sites)
  if (limit === null) return
  const held = await countHeldSubdomains(tx, { project_id: project.id, subdomain: wanted }, { limit, now: ctx.clock() })
  if (held.count >= limit) throw tooManyHeld('subdomains, with those of deleted sites', project.plan, limit, held)
}

/** @throws AppError `conflict` */
export async function checkDomainQuota(db: Db, ctx: Gatekeeper, project: GatedProject): Promise<void> {
  const limit = ctx.config.plans[project.plan].domains
  if (limit === null || (await countDomains(db, project.id)) < limit) return
  const allowed = limit === 1 ? '1 domain' : `${limit} domains`
  throw conflict(`the ${planTitle(project.plan)} plan allows ${allowed}: delete one or change the plan`)
}

/**
 * Who deletes a domain and adds another keeps none of them, but each was looked up and kept from others for a while.
 * @throws AppError `conflict`; `too_many_requests` for more than {@link maxDomainAddsPerHour}
 */
export async function checkDomainClaims(tx: Tx, ctx: Gatekeeper, project: GatedProject, domain: string): Promise<void> {
  const now = ctx.clock()
  const limit = claimLimit(ctx.config.plans[project.plan].domains)
  if (limit !== null) {
    const held = await countClaimedDomains(tx, { project_id: project.id, domain }, { limit, now })
    if (held.count >= limit) throw tooManyHeld('domains, with those deleted in the last 30 days', project.plan, limit, held)
  }
  const adds = { project_id: project.id, kind: 'domain_adds', limit: maxDomainAddsPerHour, periodMs: hourMs }
  const next = await takeAllowance(tx, adds, now)
  if (next)
    throw tooManyRequests(
      `a project may add ${maxDomainAddsPerHour} domains an hour; add the others later`,
      secondsUntil(next, now),
    )
}

function tooManyHeld(what: string, plan: PlanName, limit: number, { count, next_free_at }: HeldNames) {
  const wait = next_free_at ? `wait until ${readable(next_free_at)}` : 'delete one'
  return conflict(
    `the project holds ${count} ${what}, and the ${planTitle(plan)} plan allows ${limit}: take one of its own again, or ${wait}`,
  )
}

/** For `Retry-After`: whole seconds, at least one. */
export const secondsUntil = (instant: Date, now: Date) => Math.max(1, Math.ceil((instant.getTime() - now.getTime()) / 1000))

const nextMonth = (now: Date) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
