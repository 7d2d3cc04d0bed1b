import type { AccessMode } from '../../core/access.ts'
import { paymentRequired } from '../../core/errors.ts'
import { type PlanName, planAllows, planFor } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { type AccessBrand, findBrand } from './brand.ts'
import { countEmails } from './emails.ts'
import { findLock, type LockRow } from './locks.ts'
import { findPrice, type Price } from './prices.ts'

/** Everything that is shown of the access to a site. */
export interface AccessState {
  readonly lock: LockRow | undefined
  readonly emails_count: number
  /** The ids of the channels whose subscribers are let in. */
  readonly channels: readonly string[]
  readonly brand: AccessBrand
  readonly price: Price | undefined
}

export async function readAccess(db: Db, siteId: string): Promise<AccessState> {
  const lock = await findLock(db, siteId)
  return {
    lock,
    emails_count: await countEmails(db, siteId),
    channels: lock?.mode === 'subscribers' ? await listChannelIds(db, siteId) : [],
    brand: await findBrand(db, siteId),
    price: await findPrice(db, siteId),
  }
}

async function listChannelIds(db: Db, siteId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('access_channels')
    .select('channel_id')
    .where('site_id', '=', siteId)
    .orderBy('channel_id')
    .execute()
  return rows.map(({ channel_id }) => channel_id)
}

/** Whether a site may be closed with emailed codes. */
export const mayUseEmailAccess = (plan: PlanName, { email_access }: { readonly email_access: boolean }) =>
  email_access || planAllows(plan, 'email_access')

const whatCloses = {
  password: 'closing a site with a password',
  subscribers: 'closing a site to all but the subscribers of channels',
  members: 'closing a site to all but its members',
  paid: 'closing a site to all but paying members',
} as const

/** @throws AppError `payment_required` when neither the plan nor the site may be closed in this way */
export function requirePlanForAccess(mode: AccessMode, plan: PlanName, site: { readonly email_access: boolean }): void {
  if (mode === 'email') {
    if (mayUseEmailAccess(plan, site)) return
    throw paymentRequired(
      `login by emailed codes needs the ${planFor('email_access')} plan or higher, or the option of the site that the operator switches on`,
      'plan_email_access',
    )
  }
  const feature = `${mode}_access` as const
  if (planAllows(plan, feature)) return
  throw paymentRequired(`${whatCloses[mode]} needs the ${planFor(feature)} plan or higher`, `plan_${feature}`)
}
