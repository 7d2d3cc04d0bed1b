/** Plans from lowest to highest. */
export const planNames = ['free', 'start', 'pro', 'business', 'scale', 'enterprise'] as const
export type PlanName = (typeof planNames)[number]

/** The limits of one plan. `null` is unlimited. */
export interface Quotas {
  readonly sites: number | null
  readonly domains: number | null
  readonly storage_bytes: number | null
  readonly forms_per_month: number | null
  readonly build_minutes_per_month: number | null
  readonly deploys_per_hour: number | null
  readonly autoreply_mails_per_month: number | null
  /** How many inactive deploys are kept for a rollback. */
  readonly inactive_deploys: number | null
}
export type Plans = Readonly<Record<PlanName, Quotas>>

const MB = 1024 * 1024
const GB = 1024 * MB

const quotas = (
  sites: number | null,
  domains: number | null,
  storage_bytes: number | null,
  forms_per_month: number | null,
  build_minutes_per_month: number | null,
  deploys_per_hour: number | null,
  autoreply_mails_per_month: number | null,
  inactive_deploys: number | null,
): Quotas => ({
  sites,
  domains,
  storage_bytes,
  forms_per_month,
  build_minutes_per_month,
  deploys_per_hour,
  autoreply_mails_per_month,
  inactive_deploys,
})

/** The built-in table; `PLINTH_PLANS_FILE` is merged over it. */
export const defaultPlans: Plans = {
  free: quotas(3, 1, 500 * MB, 10, 100, 10, 0, 3),
  start: quotas(10, 5, 5 * GB, 100, 300, 30, 200, 10),
  pro: quotas(30, 20, 25 * GB, 1000, 1000, 60, 2000, 20),
  business: quotas(100, 100, 100 * GB, 5000, 3000, 120, 10_000, 50),
  scale: quotas(300, 500, 500 * GB, 25_000, 10_000, 240, 50_000, 100),
  enterprise: quotas(null, null, null, null, null, null, null, null),
}

/** Features that only some plans have, each with the lowest plan that has it. */
const featurePlans = {
  short_subdomain: 'start',
  previews: 'start',
  permanent_links: 'start',
  autoreply: 'start',
  password_access: 'start',
  email_access: 'pro',
  subscribers_access: 'pro',
  members_access: 'pro',
  paid_access: 'pro',
} as const satisfies Record<string, PlanName>
export type Feature = keyof typeof featurePlans

const rank = (plan: PlanName) => planNames.indexOf(plan)

export const planAllows = (plan: PlanName, feature: Feature) => rank(plan) >= rank(featurePlans[feature])

/** The plans that have the feature. */
export const plansWith = (feature: Feature) => planNames.filter((plan) => planAllows(plan, feature))

/** The display name of the plan: `Free`, `Start`. */
export const planTitle = (plan: PlanName) => plan.charAt(0).toUpperCase() + plan.slice(1)

/** The lowest plan that has the feature. */
export const lowestPlanWith = (feature: Feature): PlanName => featurePlans[feature]

/** The title of the lowest plan that has the feature. */
export const planFor = (feature: Feature) => planTitle(lowestPlanWith(feature))

/** Whether some higher plan allows more than `plan` does, so that an upgrade would help. */
export function upgradeLifts(plans: Plans, plan: PlanName, quota: keyof Quotas): boolean {
  const own = plans[plan][quota]
  if (own === null) return false
  return planNames.slice(rank(plan) + 1).some((higher) => {
    const limit = plans[higher][quota]
    return limit === null || limit > own
  })
}

/**
 * How many names of one kind a project may hold at once, including released names that are still reserved: three times the number that
 * its plan allows, plus ten. Null is unlimited.
 */
export const claimLimit = (quota: number | null) => (quota === null ? null : 3 * quota + 10)

/** The text of every refusal for storage. */
export const overStorageQuota = (plan: PlanName, limitBytes: number) =>
  `this does not fit the storage quota of the ${planTitle(plan)} plan (${Math.floor(limitBytes / MB)} MB): delete old deploys or change the plan`
