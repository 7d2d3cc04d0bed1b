import { paymentRequired } from '../../core/errors.ts'
import { type PlanName, planAllows, planFor } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { AccessMode } from '../../infra/db/schema.ts'
import { type AccessBrand, findBrand } from './brand.ts'
import { countEmails } from './emails.ts'
import { findLock, type LockRow } from './locks.ts'

/** Everything that is shown of the access to a site. */
export interface AccessState {
  readonly lock: LockRow | undefined
  readonly emails_count: number
  readonly brand: AccessBrand
}

export async function readAccess(db: Db, siteId: string): Promise<AccessState> {
  const lock = await findLock(db, siteId)
  return { lock, emails_count: await countEmails(db, siteId), brand: await findBrand(db, siteId) }
}

/** Whether a site may be closed with emailed codes. */
export const mayUseEmailAccess = (plan: PlanName, { email_access }: { readonly email_access: boolean }) =>
  email_access || planAllows(plan, 'email_access')

/** @throws AppError `payment_required` when neither the plan nor the site may be closed in this way */
export function requirePlanForAccess(mode: AccessMode, plan: PlanName, site: { readonly email_access: boolean }): void {
  if (mode === 'email' && !mayUseEmailAccess(plan, site)) {
    throw paymentRequired(
      `login by emailed codes needs the ${planFor('email_access')} plan or higher, or the option of the site that the operator switches on`,
      'plan_email_access',
    )
  }
  if (mode === 'password' && !planAllows(plan, 'password_access')) {
    throw paymentRequired(
      `closing a site with a password needs the ${planFor('password_access')} plan or higher`,
      'plan_password_access',
    )
  }
}
