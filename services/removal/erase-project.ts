import { sql } from 'kysely'
import { AppError } from '../../core/errors.ts'
import { type Db, databaseTime } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import { cancelledSignal, restoredSignal, trashStart } from '../../workflows/contract/sites.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { LockedSite } from '../sites/sites.ts'
import { cancelSubdomainChange } from '../sites/subdomain-change-rows.ts'
import { deleteBlobs } from '../storage/blobs.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'

/**
 * Erases a project: its keys stop working and its sites stop answering with the commit. The workflows of the trash then remove each site, and the
 * removal of the last one takes the project with it, so that a killed process delays the erasure but never loses it. May be repeated.
 */
export async function eraseProject(services: Services, id: string): Promise<void> {
  await withProject(services, id, async (tx, before) => {
    if (before.erasing) return
    await tx.updateTable('projects').set({ suspended: true, erasing: true }).where('id', '=', id).execute()
    await tx.deleteFrom('keys').where('project_id', '=', id).execute()
    const now = await databaseTime(tx)
    const sites = await lockRemainingSites(tx, id)
    for (const site of sites) await removeNow(tx, site, now)
    await bumpRoutes(tx, { project_id: id })
    tx.afterCommit(() => services.log.info({ project_id: id, sites: sites.length }, 'erasure of a project begun'))
  })
  await finishErasure(services, id)
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

/**
 * Tables of a project besides its blobs and its sites. Names of its removed sites stay reserved until their time is over.
 * Deliveries of webhooks go with their events, few with each.
 */
const ownTables = [
  'uploads',
  'build_minutes',
  'mails',
  'notifications',
  'webhook_events',
  'webhooks',
  'released_domains',
  'allowances',
  'form_usage',
  'messenger_channels',
  'messenger_connections',
  'autoreply_usage',
  'keys',
] as const

const blobsAtOnce = 1000

/**
 * Deletes a project that is being erased once it has no site left; otherwise it does nothing. It holds no lock for long: a busy project has
 * millions of rows, which go in small steps, and its own row is the last. May be repeated.
 * @returns whether the project is gone
 */
export async function finishErasure(services: Services, id: string): Promise<boolean> {
  try {
    return await eraseRest(services, id)
  } catch (error) {
    // another process was faster
    if (error instanceof AppError && error.kind === 'not_found') return true
    throw error
  }
}

async function eraseRest(services: Services, id: string): Promise<boolean> {
  const { db, log } = services
  if (!(await isErasable(db, id))) return false
  for (const table of ownTables) await deleteInSteps(db, table, sql`project_id = ${id}`)
  for (let dropped = blobsAtOnce; dropped === blobsAtOnce; )
    dropped = await withProject(services, id, (tx) => dropBlobs(tx, id, services.clock()))
  return await withProject(services, id, async (tx) => {
    if (!(await isErasable(tx, id))) return false
    // of requests that were under way
    for (const table of ownTables) await tx.deleteFrom(table).where('project_id', '=', id).execute()
    await dropBlobs(tx, id, services.clock())
    await tx.deleteFrom('projects').where('id', '=', id).execute()
    tx.afterCommit(() => log.info({ project_id: id }, 'project erased'))
    return true
  })
}

/** Goes on with erasures whose process has died. */
export async function finishErasures(services: Services): Promise<void> {
  const erasable = await services.db.selectFrom('projects').select('id').where('erasing', '=', true).where(hasNoSite).execute()
  for (const { id } of erasable) await finishErasure(services, id)
}

const hasNoSite = sql<boolean>`not exists (select from sites where sites.project_id = projects.id)`

async function isErasable(db: Db, id: string): Promise<boolean> {
  const found = db.selectFrom('projects').select('id').where('id', '=', id).where('erasing', '=', true).where(hasNoSite)
  return (await found.executeTakeFirst()) !== undefined
}

/** Deletes some blobs of a project that has no site, and releases their objects. Under the project's lock. Returns their number. */
async function dropBlobs(tx: Tx, projectId: string, now: Date): Promise<number> {
  const some = sql`select sha256 from blobs where project_id = ${projectId} limit ${blobsAtOnce}`
  const statement = sql`delete from blobs where project_id = ${projectId} and sha256 = any(array(${some}))`
  const dropped = await deleteBlobs(tx, projectId, statement)
  await releaseObjects(tx, dropped, { now, published: false })
  return dropped.length
}
