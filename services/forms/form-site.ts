import { sql } from 'kysely'
import type { PlanName } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'
import { wantsEvent } from '../webhooks/events.ts'

/** A site as its form endpoint sees it. */
export interface FormSite {
  readonly site_id: string
  readonly project_id: string
  readonly subdomain: string
  /** Verified custom domains. */
  readonly domains: readonly string[]
  readonly plan: PlanName
  readonly suspended: boolean
  /** Whether a webhook is called for submissions that the owner can see. */
  readonly has_webhooks: boolean
  /** Whether the owner wants emails about submissions. */
  readonly notify_email: boolean
  /** When the next of these is due; null while no submissions are gathered. */
  readonly digest_at: Date | null
  /** The latest notification to an owner who gets no emails. */
  readonly notified_at: Date | null
  /** Whether the visitors who make them get a reply. */
  readonly autoreply_enabled: boolean
}

/** Undefined when there is no such site outside the trash. */
export async function findFormSite(db: Db, id: string): Promise<FormSite | undefined> {
  const { rows } = await sql<FormSite>`
    select sites.id as site_id, sites.project_id, sites.subdomain, projects.plan, projects.suspended,
      array(select domain from domains where domains.site_id = sites.id and ${isVerifiedDomain}) as domains,
      exists (
        select from webhooks
        where webhooks.project_id = sites.project_id and ${wantsEvent('form.received', sql.ref('sites.id'))}) as has_webhooks,
      coalesce(f.notify_email, false) as notify_email, f.digest_at, f.notified_at,
      exists (select from autoreplies where autoreplies.site_id = sites.id and autoreplies.enabled) as autoreply_enabled
    from sites join projects on projects.id = sites.project_id left join site_forms f on f.site_id = sites.id
    where sites.id = ${id} and sites.deletion_scheduled_at is null`.execute(db)
  return rows[0]
}
