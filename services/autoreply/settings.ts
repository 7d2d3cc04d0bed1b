import { type Selectable, sql } from 'kysely'
import { paymentRequired } from '../../core/errors.ts'
import { monthOf } from '../../core/months.ts'
import { type PlanName, planAllows, planFor } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { transact } from '../transact.ts'

/** What the owner sets of the auto-reply of a site. */
export type AutoreplySettings = Pick<Selectable<DB['autoreplies']>, 'enabled' | 'subject' | 'body' | 'email_field'>

type Site = Pick<Selectable<DB['sites']>, 'id' | 'project_id'>

/** The field that holds the address when the owner names none. */
const defaultEmailField = 'email'
const unset: AutoreplySettings = { enabled: false, subject: '', body: '', email_field: defaultEmailField }

/** The settings of a site; those of a new site when it has none. */
export async function findAutoreply(db: Db, siteId: string): Promise<AutoreplySettings> {
  const row = await db
    .selectFrom('autoreplies')
    .select(['enabled', 'subject', 'body', 'email_field'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return row ?? unset
}

/** Replaces the settings of a site. @throws AppError `conflict` when the site is in the trash */
export function setAutoreply(services: Services, site: Site, settings: AutoreplySettings): Promise<void> {
  const { id: site_id, project_id } = site
  const given = { ...settings, email_field: settings.email_field || defaultEmailField, updated_at: services.clock() }
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    await tx
      .insertInto('autoreplies')
      .values({ site_id, project_id, ...given })
      .onConflict((conflict) => conflict.column('site_id').doUpdateSet(given))
      .execute()
  })
}

/** @throws AppError `payment_required` when the plan has no auto-replies */
export function requirePlanForAutoreply(plan: PlanName): void {
  if (planAllows(plan, 'autoreply')) return
  throw paymentRequired(`auto-replies need the ${planFor('autoreply')} plan or higher`, 'plan_autoreply')
}

/** The replies of the project in the UTC calendar month that `now` lies in. */
export async function repliesSent(db: Db, projectId: string, now: Date): Promise<number> {
  const row = await db
    .selectFrom('autoreply_usage')
    .select('emails')
    .where('project_id', '=', projectId)
    .where('month', '=', sql<string>`${monthOf(now)}::date`)
    .executeTakeFirst()
  return row?.emails ?? 0
}
