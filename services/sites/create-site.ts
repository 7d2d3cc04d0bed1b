import { suspended, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { checkHeldSubdomains, checkSiteQuota, requirePlanFor } from './quotas.ts'
import { insertSite, type SiteRow } from './sites.ts'
import { isSubdomainTaken, taken } from './subdomains.ts'

/**
 * Creates an empty site at a free subdomain, and notifies the edge with the commit.
 * @throws AppError `conflict`, `invalid` or `payment_required` for the name and the plan
 */
export function createSite(
  services: Services,
  { project_id, name, subdomain }: { readonly project_id: string; readonly name: string; readonly subdomain: string },
): Promise<SiteRow> {
  return withProject(services, project_id, async (tx, project) => {
    const now = services.clock()
    if (await isSubdomainTaken(tx, subdomain, { project_id }, now)) throw taken(subdomain)
    requirePlanFor(subdomain, project.plan)
    if (project.suspended) throw suspended(project)
    await checkSiteQuota(tx, services, project)
    await checkHeldSubdomains(tx, services, project, subdomain)
    const site = await insertSite(tx, { project_id, name, subdomain }, now)
    if (!site) throw taken(subdomain)
    tx.afterCommit(() => services.log.info({ site_id: site.id, subdomain }, 'site created'))
    return site
  })
}
