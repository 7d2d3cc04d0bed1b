import { paymentRequired, secondsUntil, tooManyRequests } from '../../core/errors.ts'
import { type PlanName, planAllows, planFor, planTitle } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { type ProjectRow, suspended } from '../projects/projects.ts'
import { buildMinutes, countDeploysSince } from '../projects/usage.ts'
import type { Services } from '../services.ts'
import { checkStorage } from '../storage/quota.ts'

const hourMs = 3_600_000

interface DeployFacts {
  /** Bytes that the deploy adds to the project's storage, as far as known. */
  readonly addedBytes: number
  readonly activate: boolean
  /** The upload with the bytes: uploads that began later do not count. */
  readonly upload?: string
}

/**
 * The gates of every deploy route, in the specification's order: suspension (402), storage (409), rate and build minutes (429),
 * previews (402). It is exact when the project is locked, and otherwise an early refusal.
 */
export async function checkDeployGates(
  db: Db,
  services: Pick<Services, 'config' | 'clock'>,
  project: Pick<ProjectRow, 'id' | 'plan' | 'suspended' | 'suspended_reason'>,
  facts: DeployFacts,
): Promise<void> {
  const quota = services.config.plans[project.plan]
  const now = services.clock()
  if (project.suspended) throw suspended(project)
  await checkStorage(db, services, project, facts)
  if (quota.deploys_per_hour !== null) {
    const { count, oldest } = await countDeploysSince(db, project.id, new Date(now.getTime() - hourMs))
    if (count >= quota.deploys_per_hour) {
      throw tooManyRequests(
        `the ${planTitle(project.plan)} plan allows ${quota.deploys_per_hour} deploys an hour; wait or change the plan`,
        secondsUntil(new Date((oldest ?? now).getTime() + hourMs), now),
        'rate_deploys',
      )
    }
  }
  if (quota.build_minutes_per_month !== null && (await buildMinutes(db, project.id, now)) >= quota.build_minutes_per_month) {
    throw tooManyRequests(
      `the ${quota.build_minutes_per_month} build minutes of the ${planTitle(project.plan)} plan are used up for this month; wait or change the plan`,
      secondsUntil(nextMonth(now), now),
      'quota_build_minutes',
    )
  }
  checkPreviews(project.plan, facts.activate)
}

/** @throws AppError `payment_required` */
export function checkPreviews(plan: PlanName, activate: boolean): void {
  if (activate || planAllows(plan, 'previews')) return
  throw paymentRequired(`building without publishing needs the ${planFor('previews')} plan or higher`, 'plan_previews')
}

const nextMonth = (now: Date) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1))
