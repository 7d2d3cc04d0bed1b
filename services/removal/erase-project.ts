import { databaseTime } from '../../infra/db/database.ts'
import { cancelledSignal, restoredSignal, trashStart } from '../../workflows/contract/sites.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { LockedSite } from '../sites/sites.ts'
import { cancelSubdomainChange } from '../sites/subdomain-change-rows.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'

/**
 * Erases a project: its keys stop working and its sites stop answering with the commit. The workflows of the trash then remove each site, and the
 * removal of the last one takes the project with it, so that a killed process delays the erasure but never loses it. May be repeated.
 */
export function eraseProject(services: Services, id: string): Promise<void> {
  return withProject(services, id, async (tx, before) => {
    if (before.erasing) return
    await tx.updateTable('projects').set({ suspended: true, erasing: true }).where('id', '=', id).execute()
    await tx.deleteFrom('keys').where('project_id', '=', id).execute()
    const now = await databaseTime(tx)
    const sites = await lockRemainingSites(tx, id)
    for (const site of sites) await removeNow(tx, site, now)
    await bumpRoutes(tx, { project_id: id })
    await finishErasure(tx, { id, erasing: true }, now)
    tx.afterCommit(() => services.log.info({ project_id: id, sites: sites.length }, 'erasure of a project begun'))
  })
}

/** The sites whose removal has not begun, under their locks. */
function lockRemainingSites(tx: Tx, projectId: string): Promise<LockedSite[]> {
  return tx
    .selectFrom('sites')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('purging', '=', false)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
}

/** Ends the time of a site in the trash, also when it has not been there. */
async function removeNow(tx: Tx, { id: site_id, name, project_id, deletion_scheduled_at }: LockedSite, now: Date): Promise<void> {
  if (deletion_scheduled_at) await signalWorkflows(tx, [restoredSignal({ site_id, purge_at: deletion_scheduled_at })])
  await tx.updateTable('sites').set({ deletion_scheduled_at: now, updated_at: now }).where('id', '=', site_id).execute()
  const cancelled = await cancelSubdomainChange(tx, site_id, now)
  if (cancelled) await signalWorkflows(tx, [cancelledSignal({ site_id, change_id: cancelled.id })])
  await startWorkflow(tx, trashStart({ site_id, site_name: name, project_id, purge_at: now }))
}

/** What a project owns beside its sites. Names of its removed sites are not among it: they stay reserved until their time is over. */
const ownTables = [
  'uploads',
  'build_minutes',
  'mails',
  'notifications',
  // their deliveries go with them
  'webhooks',
  'webhook_events',
  'released_domains',
  'allowances',
  'form_usage',
  'messenger_channels',
  'messenger_connections',
  'autoreply_usage',
  'keys',
] as const

/**
 * Deletes a project that is being erased once it has no site left; otherwise it does nothing. Under the project's lock.
 * @returns whether the project is gone
 */
export async function finishErasure(tx: Tx, { id, erasing }: { readonly id: string; readonly erasing: boolean }, now: Date) {
  if (!erasing || (await hasSites(tx, id))) return false
  const blobs = await tx.deleteFrom('blobs').where('project_id', '=', id).returning('sha256').execute()
  const hashes = blobs.map(({ sha256 }) => sha256)
  await releaseObjects(tx, hashes, { now, published: false })
  for (const table of ownTables) await tx.deleteFrom(table).where('project_id', '=', id).execute()
  await tx.deleteFrom('projects').where('id', '=', id).execute()
  return true
}

async function hasSites(tx: Tx, projectId: string): Promise<boolean> {
  return (await tx.selectFrom('sites').select('id').where('project_id', '=', projectId).limit(1).executeTakeFirst()) !== undefined
}
