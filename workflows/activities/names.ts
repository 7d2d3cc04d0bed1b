import { heartbeat } from '@temporalio/activity'
import { formerSubdomainPeriodMs, quarantinePeriodMs } from '../../core/limits.ts'
import type { ArtifactDeps } from '../../services/deploys/purge.ts'
import { deleteDomainsOfSite } from '../../services/domains/domains.ts'
import { lockProject } from '../../services/projects/projects.ts'
import { purgeDeploys } from '../../services/removal/purge-site.ts'
import { beginPurge, findTrashing, lockPurgedSite, removeSite, type Trashing } from '../../services/removal/sites.ts'
import { findSubdomainChange, switchSubdomain } from '../../services/sites/subdomain-changes.ts'
import { insertWorkflowSignals } from '../../services/workflow-messages.ts'
import type { Relay } from '../client.ts'
import { domainChangedSignal } from '../contract/domains.ts'
import type { NameActivities, TrashOutcome } from '../contract/names.ts'
import { queueReports } from '../reports.ts'
import { giveTurns } from '../turns.ts'

export interface NameActivityDeps extends Omit<ArtifactDeps, 'queueReports'> {
  /** How many builds of a project may run or wait for a slot at once. */
  readonly buildsPerProject: number
  readonly relay: Pick<Relay, 'wake'>
}

/** The ends of long waits. The row decides, not the timer: a site that was restored, or trashed again, is left alone. */
export function createNameActivities(deps: NameActivityDeps): NameActivities {
  const { db, buildsPerProject: cap, relay, log, clock } = deps
  return {
    async purgeSite({ site_id, ...input }) {
      const trashing = { site_id, purge_at: new Date(input.purge_at) }
      const found = await findTrashing(db, trashing)
      if (found.state !== 'trashed') return endOf(found.state)
      if (clock() < trashing.purge_at) return 'early'
      const { project_id } = found
      if (!(await begin(trashing, project_id))) return endOf((await findTrashing(db, trashing)).state)
      const deploys = await purgeDeploys({ ...deps, queueReports }, site_id, heartbeat)
      await remove(site_id, project_id)
      log.info({ site_id, project_id, deploys }, 'site removed for good')
      return 'purged'
    },

    async applySubdomainChange({ change_id }) {
      const now = clock()
      const change = await findSubdomainChange(db, change_id)
      if (!change || change.cancelled_at) return 'cancelled'
      if (change.switched_at) return 'switched'
      if (now < change.switch_at) return 'early'
      const formerUntil = new Date(now.getTime() + formerSubdomainPeriodMs)
      const switched = await db.transaction().execute((tx) => switchSubdomain(tx, change, { now, formerUntil }))
      // cancelled, or made by another try, a moment ago
      if (!switched) return (await findSubdomainChange(db, change_id))?.switched_at ? 'switched' : 'cancelled'
      const { site_id, old_subdomain, new_subdomain } = change
      log.info({ site_id, change_id, old_subdomain, new_subdomain }, 'subdomain switched')
      return 'switched'
    },
  }

  /** Builds of the site give their permits back, and others get them. */
  async function begin(trashing: Trashing, projectId: string): Promise<boolean> {
    const begun = await db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId)
      if (!(await beginPurge(tx, trashing, clock()))) return false
      await giveTurns(tx, { id: projectId, cap }, clock())
      return true
    })
    relay.wake()
    return begun
  }

  async function remove(siteId: string, projectId: string): Promise<void> {
    await db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId)
      await lockPurgedSite(tx, siteId)
      const now = clock()
      const domains = (await deleteDomainsOfSite(tx, siteId, now)).map(({ id, attempt }) => ({ domain_id: id, attempt }))
      await insertWorkflowSignals(tx, domains.map(domainChangedSignal))
      await removeSite(tx, siteId, { now, until: new Date(now.getTime() + quarantinePeriodMs) })
    })
    relay.wake()
  }
}

/** What has become of a site that is not in the trash as it was then. */
const endOf = (state: Awaited<ReturnType<typeof findTrashing>>['state']): TrashOutcome =>
  state === 'gone' ? 'purged' : 'restored'
