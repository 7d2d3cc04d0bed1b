import { notFound } from '../../core/errors.ts'
import type { Services } from '../services.ts'

/**
 * Lets a site be closed with emailed codes on any plan, or ends that option. A site that is closed with codes stays closed with them.
 * @throws AppError `not_found`
 */
export async function setEmailOption({ db, log, clock }: Services, site_id: string, email_access: boolean) {
  const site = await db
    .updateTable('sites')
    .set({ email_access, updated_at: clock() })
    .where('id', '=', site_id)
    .returning(['id', 'project_id', 'name', 'subdomain', 'email_access'])
    .executeTakeFirst()
  if (!site) throw notFound('there is no site with this id')
  log.info({ site_id, email_access }, 'option of a site changed')
  return site
}
