import { heartbeat } from '@temporalio/activity'
import { purgeSite } from '../../services/removal/purge-site.ts'
import type { Services } from '../../services/services.ts'
import { switchSubdomain } from '../../services/sites/subdomain-changes.ts'
import type { SiteActivities } from '../contract/sites.ts'

/** The steps after long waits. The row decides, not the timer. */
export const createSiteActivities = (services: Services): SiteActivities => ({
  purgeSite: ({ site_id, purge_at }) => purgeSite(services, { site_id, purge_at: new Date(purge_at) }, heartbeat),
  applySubdomainChange: ({ change_id }) => switchSubdomain(services, change_id),
})
