import { conflict, paymentRequired, tooManyRequests } from '../core/errors.ts'
import { overStorageQuota, type PlanName, planAllows, planFor, planTitle, upgradeLifts } from '../core/plans.ts'
import { storageBytes } from '../infra/db/blobs.ts'
import type { Db } from '../infra/db/database.ts'
import { countDomains } from '../infra/db/domains.ts'
import { countSites } from '../infra/db/sites.ts'
import { buildMinutes, countDeploysSince } from '../infra/db/usage.ts'
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
}

/**
 * The gates of every deploy route, in the specification's order: storage (409), rate and build minutes (429), suspension (402),
 * previews (402). Exact when the project is locked, else an early refusal.
 */
export async function checkDeployGates(db: Db, ctx: Gatekeeper, project: GatedProject, facts: DeployFacts): Promise<void> {
  const quota = ctx.config.plans[project.plan]
  const now = ctx.clock()
  await checkStorage(db, ctx, project, facts.addedBytes)
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
  addedBytes: number,
): Promise<void> {
  const quota = ctx.config.plans[project.plan].storage_bytes
  if (quota === null || (await storageBytes(db, project.id)) + addedBytes <= quota) return
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

/** @throws AppError `conflict` */
export async function checkDomainQuota(db: Db, ctx: Gatekeeper, project: GatedProject): Promise<void> {
  const limit = ctx.config.plans[project.plan].domains
  if (limit === null || (await countDomains(db, project.id)) < limit) return
  const allowed = limit === 1 ? '1 domain' : `${limit} domains`
  throw conflict(`the ${planTitle(project.plan)} plan allows ${allowed}: delete one or change the plan`)
}

const nextMonth = (now: Date) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
