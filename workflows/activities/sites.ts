import { heartbeat } from '@temporalio/activity'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import type { Services } from '../../services/services.ts'
import { switchSubdomain } from '../../services/sites/subdomain-changes.ts'
import type { SiteActivities } from '../contract/sites.ts'

/** The steps after long waits. The row decides, not the timer. */
export const createSiteActivities = (services: Services): SiteActivities => ({
  // of a project that is erased, its last site takes everything with it
  purgeSite: ({ site_id, purge_at }) =>
    withHeartbeat(() => purgeSite(services, { site_id, purge_at: new Date(purge_at) }, heartbeat)),
  applySubdomainChange: ({ change_id }) => switchSubdomain(services, change_id),
})
