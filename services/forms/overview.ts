import { type Selectable, sql } from 'kysely'
import { readInPages } from '../../infra/db/batches.ts'
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

interface Shown {
  readonly siteId?: string
  /** The id of a site that precedes the first one. */
  readonly after?: string | undefined
  readonly limit: number
}

async function listSiteForms(db: Db, projectId: string, { siteId, after, limit }: Shown): Promise<SiteFormRow[]> {
  const { rows } = await sql<SiteFormRow>`
    select sites.id as site_id, sites.name, coalesce(f.notify_email, false) as notify_email,
      exists (select from autoreplies a where a.site_id = sites.id and a.enabled) as autoreply_enabled, ${shownCounts}
    from sites left join site_forms f on f.site_id = sites.id
    where sites.project_id = ${projectId} and sites.deletion_scheduled_at is null
      ${siteId === undefined ? sql`` : sql`and sites.id = ${siteId}`}
      ${after === undefined ? sql`` : sql`and sites.id > ${after}`}
    order by sites.id limit ${limit}`.execute(db)
  return rows
}

/** The forms of the project's sites that are not in the trash, oldest first, in batches. */
export const readSiteForms = (db: Db, projectId: string) =>
  readInPages<SiteFormRow>(({ after, limit }) => listSiteForms(db, projectId, { after: after?.site_id, limit }))

/** The submissions of the same sites together. */
export async function sumOfSiteForms(db: Db, projectId: string): Promise<SubmissionCounts> {
  const { rows } = await sql<SubmissionCounts>`
    with shown as (
      select ${shownCounts} from sites left join site_forms f on f.site_id = sites.id
      where sites.project_id = ${projectId} and sites.deletion_scheduled_at is null)
    select coalesce(sum(verified), 0)::bigint as verified, coalesce(sum(spam), 0)::bigint as spam,
      coalesce(sum(archive), 0)::bigint as archive, coalesce(sum(hidden), 0)::bigint as hidden
    from shown`.execute(db)
  return rows[0] ?? { verified: 0, spam: 0, archive: 0, hidden: 0 }
}

/** The hidden submissions are not among the verified. */
const shownCounts = sql`
  coalesce(f.verified - f.hidden, 0) as verified, coalesce(f.spam, 0) as spam, coalesce(f.archive, 0) as archive,
  coalesce(f.hidden, 0) as hidden`

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
    const [row] = await listSiteForms(tx, project_id, { siteId: site_id, limit: 1 })
    if (!row) throw inTrash()
    return row
  })
}
