import { quarantinePeriodMs } from '../../core/limits.ts'
import { domainChangedSignal } from '../../workflows/contract/domains.ts'
import { deleteAccessOfSite, deleteLoginsOfSite } from '../access/remove.ts'
import { deleteDeliveryOfSite } from '../autoreply/delivery-files.ts'
import { deleteAutoreplyOfSite, deleteRepliesOfSite } from '../autoreply/remove.ts'
import { grantFreePermits } from '../builds/permits.ts'
import { purgeDeploy } from '../deploys/purge.ts'
import { deleteDomainsOfSite } from '../domains/detach.ts'
import { deleteFormsOfSite, deleteSubmissionsOfSite } from '../forms/remove.ts'
import { deleteLateSubscribersOfSite, deleteSubscribersOfSite } from '../messengers/remove.ts'
import { deleteLastPaymentsOfSite, deletePaymentsOfSite } from '../payments/remove.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { forgetAssetsOfSite } from '../storage/retained-assets.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { finishErasure } from './erase-project.ts'
import {
  beginPurge,
  deleteDeploysOfSite,
  findTrashing,
  listDeploysToPurge,
  lockPurgedSite,
  removeSite,
  type Trashing,
} from './sites.ts'
import { deleteLateStatsOfSite, deleteStatsOfSite } from './stats.ts'

const deploysAtOnce = 100

/**
 * Removes a site for good when its time in the trash is over: its deploys, its form submissions, its domains, then itself. The row decides, not a timer: a site that
 * was restored, or trashed again, is left alone. May be repeated.
 * @param progress called after each deploy, with a line about it; an exception ends it
 * @throws AppError `unavailable` when the storage does not answer
 */
export async function purgeSite(
  services: Services,
  trashing: Trashing,
  progress: (line: string) => void,
): Promise<'purged' | 'restored' | 'early'> {
  const { db, clock, log } = services
  const { site_id, purge_at } = trashing
  const found = await findTrashing(db, trashing)
  if (found.state !== 'trashed') return endOf(found.state)
  if (clock() < purge_at) return 'early'
  const { project_id } = found
  if (!(await begin(services, trashing, project_id))) return endOf((await findTrashing(db, trashing)).state)
  const deploys = await purgeDeploys(services, site_id, progress)
  await deleteSubmissionsOfSite(db, site_id)
  await deleteRepliesOfSite(db, site_id)
  await deleteLoginsOfSite(db, site_id)
  await deleteSubscribersOfSite(db, site_id)
  await deletePaymentsOfSite(db, site_id)
  await deleteStatsOfSite(db, site_id)
  await forgetAssets(services, site_id, project_id)
  await deleteDeploysOfSite(db, site_id)
  await remove(services, site_id, project_id)
  log.info({ site_id, project_id, deploys }, 'site removed for good')
  await finishErasure(services, project_id)
  return 'purged'
}

/** The outcome for a site that is no longer in the trash since the same move. */
const endOf = (state: Awaited<ReturnType<typeof findTrashing>>['state']) => (state === 'gone' ? 'purged' : 'restored')

/** Ends the builds of the site, whose permits go to other builds. False when the site was restored. */
function begin(services: Services, trashing: Trashing, project_id: string): Promise<boolean> {
  return withProject(services, project_id, async (tx) => {
    const now = services.clock()
    if (!(await beginPurge(tx, trashing, now))) return false
    await grantFreePermits(tx, services, { project_id, now })
    return true
  })
}

/** Deletes the files of every deploy, each in a transaction of its own. Returns their number; deploys that an earlier try has purged are skipped. */
async function purgeDeploys(services: Services, siteId: string, progress: (line: string) => void): Promise<number> {
  let purged = 0
  for (let afterId: string | undefined; ; ) {
    const deploys = await listDeploysToPurge(services.db, siteId, { limit: deploysAtOnce, afterId })
    for (const deploy of deploys) {
      if (await purgeDeploy(services, deploy)) purged += 1
      progress(`purged ${purged} deploys`)
    }
    if (deploys.length < deploysAtOnce) return purged
    afterId = deploys.at(-1)?.id
  }
}

function forgetAssets(services: Services, siteId: string, projectId: string): Promise<void> {
  return withProject(services, projectId, async (tx) => {
    await lockPurgedSite(tx, siteId)
    await forgetAssetsOfSite(tx, services, { id: siteId, project_id: projectId })
  })
}

/** Removes the site with what is left of it: whatever there may be much of was deleted in small steps, without a lock. */
function remove(services: Services, siteId: string, projectId: string): Promise<void> {
  return withProject(services, projectId, async (tx) => {
    await lockPurgedSite(tx, siteId)
    const now = services.clock()
    const domains = (await deleteDomainsOfSite(tx, siteId, now)).map(({ id, attempt }) => ({ domain_id: id, attempt }))
    await signalWorkflows(tx, domains.map(domainChangedSignal))
    await deleteFormsOfSite(tx, siteId)
    await deleteAutoreplyOfSite(tx, siteId)
    await deleteDeliveryOfSite(tx, { id: siteId, project_id: projectId }, now)
    await deleteLateSubscribersOfSite(tx, siteId)
    await deleteLastPaymentsOfSite(tx, siteId)
    await deleteAccessOfSite(tx, { id: siteId, project_id: projectId }, now)
    await deleteLateStatsOfSite(tx, siteId)
    await removeSite(tx, siteId, { now, until: new Date(now.getTime() + quarantinePeriodMs) })
  })
}
