import type { Selectable } from 'kysely'
import { paymentRequired } from '../../core/errors.ts'
import { type PlanName, planAllows, planFor } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { AccessMode, DB } from '../../infra/db/schema.ts'
import { countEmails } from './emails.ts'
import { findLock, type LockRow } from './locks.ts'

/** How the login page of a site looks. */
export type AccessBrand = Omit<Selectable<DB['access_brands']>, 'site_id' | 'project_id'>

const unset: AccessBrand = {
  title: null,
  description: null,
  logo_sha256: null,
  logo_size: null,
  logo_framed: false,
  logo_rounded: false,
  favicon_mode: 'site',
  favicon_sha256: null,
  favicon_size: null,
}

/** Everything that is shown of the access to a site. */
export interface AccessState {
  readonly lock: LockRow | undefined
  readonly emails_count: number
  readonly brand: AccessBrand
}

export async function readAccess(db: Db, siteId: string): Promise<AccessState> {
  const lock = await findLock(db, siteId)
  const brand = await db
    .selectFrom('access_brands')
    .select(['title', 'description', 'logo_sha256', 'logo_size', 'logo_framed', 'logo_rounded'])
    .select(['favicon_mode', 'favicon_sha256', 'favicon_size'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return { lock, emails_count: await countEmails(db, siteId), brand: brand ?? unset }
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
