import { type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Services } from '../services.ts'
import { inTrash } from '../sites/sites.ts'
import { transact } from '../transact.ts'
import type { SubmissionCounts } from './site-forms.ts'

/** The form settings and counters of a site. The hidden submissions are not among the verified. */
export interface SiteFormRow extends SubmissionCounts {
  readonly site_id: string
  readonly name: string
  readonly notify_email: boolean
  readonly autoreply_enabled: boolean
}

type Site = Pick<Selectable<DB['sites']>, 'id' | 'project_id'>

/** The forms of the project's sites that are not in the trash, oldest first. */
export async function listSiteForms(db: Db, projectId: string, siteId?: string): Promise<SiteFormRow[]> {
  const { rows } = await sql<SiteFormRow>`
    select sites.id as site_id, sites.name, coalesce(f.notify_email, false) as notify_email,
      exists (select from autoreplies a where a.site_id = sites.id and a.enabled) as autoreply_enabled,
      coalesce(f.verified - f.hidden, 0) as verified, coalesce(f.spam, 0) as spam, coalesce(f.archive, 0) as archive,
      coalesce(f.hidden, 0) as hidden
    from sites left join site_forms f on f.site_id = sites.id
    where sites.project_id = ${projectId} and sites.deletion_scheduled_at is null
      ${siteId === undefined ? sql`` : sql`and sites.id = ${siteId}`}
    order by sites.id`.execute(db)
  return rows
}

/** @throws AppError `conflict` when the site is in the trash */
export function setFormSettings(
  services: Services,
  site: Site,
  settings: { readonly notify_email: boolean },
): Promise<SiteFormRow> {
  const { id: site_id, project_id } = site
  return transact(services, async (tx) => {
    await tx
      .insertInto('site_forms')
      .values({ site_id, project_id, ...settings })
      .onConflict((conflict) => conflict.column('site_id').doUpdateSet(settings))
      .execute()
    const [row] = await listSiteForms(tx, project_id, site_id)
    if (!row) throw inTrash()
    return row
  })
}
