import { type SqlBool, sql } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { readInPages } from '../../infra/db/batches.ts'
import { type Db, databaseTime } from '../../infra/db/database.ts'
import { cancelledSignal, restoredSignal, trashStart } from '../../workflows/contract/sites.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { suspended, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { requireRoom } from '../storage/quota.ts'
import { transact } from '../transact.ts'
import { recordEvent } from '../webhooks/events.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'
import { checkSiteQuota } from './quotas.ts'
import { lockSite, noSuchSite, type SiteRow, withChange } from './sites.ts'
import { cancelSubdomainChange } from './subdomain-change-rows.ts'

/** The project's sites in the trash, the next to be removed first, in batches. */
export const readTrashedSites = (db: Db, projectId: string) =>
  readInPages<SiteRow>(({ after, limit }) =>
    withChange(db)
      .where('sites.project_id', '=', projectId)
      .where('sites.deletion_scheduled_at', 'is not', null)
      .$if(after !== undefined, (query) =>
        query.where(sql<SqlBool>`(sites.deletion_scheduled_at, sites.id) > (${after?.deletion_scheduled_at}, ${after?.id})`),
      )
      .orderBy('sites.deletion_scheduled_at')
      .orderBy('sites.id')
      .limit(limit)
      .execute(),
  )

/**
 * Moves the site to the trash and cancels its pending subdomain change. The edge is notified with the commit.
 * @throws AppError `conflict` when it is there already
 */
export function trashSite(services: Services, { id: site_id, project_id }: Pick<SiteRow, 'id' | 'project_id'>): Promise<SiteRow> {
  return transact(services, async (tx) => {
    const now = await databaseTime(tx)
    const purge_at = new Date(now.getTime() + services.config.names.trashPeriodMs)
    const trashed = await tx
      .updateTable('sites')
      .set({ deletion_scheduled_at: purge_at, updated_at: now })
      .where('project_id', '=', project_id)
      .where('id', '=', site_id)
      .where('deletion_scheduled_at', 'is', null)
      .executeTakeFirst()
    if (trashed.numUpdatedRows === 0n) throw conflict('the site is in the trash already; restore_site brings it back', 'in_trash')
    const cancelled = await cancelSubdomainChange(tx, site_id, now)
    const site = await withChange(tx).where('sites.id', '=', site_id).executeTakeFirstOrThrow()
    await bumpRoutes(tx, { site_id })
    await startWorkflow(tx, trashStart({ site_id, site_name: site.name, project_id, purge_at }))
    if (cancelled) await signalWorkflows(tx, [cancelledSignal({ site_id, change_id: cancelled.id })])
    const data = { name: site.name, purge_at: purge_at.toISOString() }
    await recordEvent(tx, { type: 'site.trashed', project_id, site_id, data }, now)
    tx.afterCommit(() => services.log.info({ site_id, purge_at }, 'site trashed'))
    return site
  })
}

/**
 * Takes the site out of the trash, unchanged. The edge is notified with the commit.
 * @throws AppError `conflict` when it is not there or its removal has begun, and from the quotas
 */
export function restoreSite(
  services: Services,
  { id: site_id, project_id }: Pick<SiteRow, 'id' | 'project_id'>,
): Promise<SiteRow> {
  return withProject(services, project_id, async (tx, project) => {
    const found = await lockSite(tx, project_id, site_id)
    if (!found) throw noSuchSite()
    const purge_at = found.deletion_scheduled_at
    if (!purge_at) throw conflict('the site is not in the trash: there is nothing to restore')
    if (found.purging) throw conflict('the site is being removed for good: its time in the trash is over')
    if (project.suspended) throw suspended(project)
    await checkSiteQuota(tx, services, project)
    await requireRoom(tx, services, project, { addedBytes: 0 })
    await signalWorkflows(tx, [restoredSignal({ site_id, purge_at })])
    const restored = { deletion_scheduled_at: null, updated_at: services.clock() }
    await tx.updateTable('sites').set(restored).where('id', '=', site_id).execute()
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ site_id }, 'site restored'))
    return await withChange(tx).where('sites.id', '=', site_id).executeTakeFirstOrThrow()
  })
}
