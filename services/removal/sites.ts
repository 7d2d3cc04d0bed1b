import { type SqlBool, sql } from 'kysely'
import type { DeployStatus } from '../../core/deploy.ts'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import { notifyRemoved } from '../feeds/routes.ts'
import { quarantineSubdomains } from '../sites/subdomains.ts'
import type { Tx } from '../transact.ts'

/** One move of a site to the trash; the instant distinguishes it from earlier ones. */
export interface Trashing {
  readonly site_id: string
  readonly purge_at: Date
}

/** `restored`: or moved to the trash again since. `gone`: removed for good. */
export async function findTrashing(
  db: Db,
  { site_id, purge_at }: Trashing,
): Promise<{ readonly state: 'trashed'; readonly project_id: string } | { readonly state: 'restored' | 'gone' }> {
  const site = await db
    .selectFrom('sites')
    .select(['project_id', 'deletion_scheduled_at'])
    .where('id', '=', site_id)
    .executeTakeFirst()
  if (!site) return { state: 'gone' }
  const isThis = site.deletion_scheduled_at?.getTime() === purge_at.getTime()
  return isThis ? { state: 'trashed', project_id: site.project_id } : { state: 'restored' }
}

/**
 * From here on the site cannot be restored: its deploys are ended, so that each may be purged. Under the project's lock; false when it
 * was restored. May be repeated.
 */
export async function beginPurge(tx: Tx, { site_id, purge_at }: Trashing, now: Date): Promise<boolean> {
  const begun = await tx
    .updateTable('sites')
    .set({ purging: true })
    .where('id', '=', site_id)
    .where('deletion_scheduled_at', '=', purge_at)
    .executeTakeFirst()
  if (begun.numUpdatedRows === 0n) return false
  await tx
    .updateTable('deploys')
    .set((eb) => ({
      status: sql<DeployStatus>`case when ${eb.ref('status')} = 'active' then 'superseded' else 'failed' end`,
      error: sql<string | null>`case when ${eb.ref('status')} = 'active' then error else 'the site was removed' end`,
      finished_at: sql<Date>`coalesce(${eb.ref('finished_at')}, ${now}::timestamptz)`,
      source_sha256: null,
    }))
    .where('site_id', '=', site_id)
    .where('status', 'in', ['queued', 'building', 'active'])
    .execute()
  return true
}

/** Deploys of the site that still count against the storage, in the order of their ids. */
export function listDeploysToPurge(
  db: Db,
  siteId: string,
  page: { readonly limit: number; readonly afterId?: string | undefined },
): Promise<DeployRow[]> {
  return db
    .selectFrom('deploys')
    .selectAll()
    .where('site_id', '=', siteId)
    .where('artifacts_purged', '=', false)
    .where((eb) => eb.or([eb('manifest_sha256', 'is not', null), eb('source_sha256', 'is not', null)]))
    .$if(page.afterId !== undefined, (query) => query.where('id', '>', page.afterId ?? ''))
    .orderBy('id')
    .limit(page.limit)
    .execute()
}

/**
 * Deletes the deploys of a site whose files are purged, with their links and previews and what was received for them, in small steps. A deploy that
 * still counts against the storage stays. May be repeated.
 */
export async function deleteDeploysOfSite(db: Db, siteId: string): Promise<void> {
  const ofSite = sql<SqlBool>`site_id = ${siteId}`
  await deleteInSteps(db, 'webhook_deliveries', sql`webhook_id in (select id from webhooks where ${ofSite})`)
  await deleteInSteps(db, 'git_deliveries', ofSite)
  await deleteInSteps(db, 'preview_links', ofSite)
  await db.updateTable('sites').set({ active_deploy_id: null }).where('id', '=', siteId).where('purging', '=', true).execute()
  const isPurged = sql`(artifacts_purged or (manifest_sha256 is null and source_sha256 is null))`
  // their reports go with them; previews come after their deploys, each of which would be changed otherwise
  await deleteInSteps(db, 'deploys', sql`${ofSite} and ${isPurged}`)
  await deleteInSteps(db, 'git_previews', ofSite)
}

/** Takes the lock of a site whose purge has begun. @throws when there is none */
export async function lockPurgedSite(tx: Tx, siteId: string): Promise<void> {
  await tx
    .selectFrom('sites')
    .select('id')
    .where('id', '=', siteId)
    .where('purging', '=', true)
    .forUpdate()
    .executeTakeFirstOrThrow()
}

/**
 * Deletes a site, under its lock, when its deploys are purged and its domains detached. Its names stay reserved until
 * then. The edge is notified with the commit.
 */
export async function removeSite(tx: Tx, siteId: string, time: { readonly now: Date; readonly until: Date }): Promise<void> {
  await tx.deleteFrom('subdomain_changes').where('site_id', '=', siteId).execute()
  await quarantineSubdomains(tx, siteId, time)
  await tx.deleteFrom('preview_links').where('site_id', '=', siteId).execute()
  // its deliveries and reports go with the site and its deploys
  await tx.deleteFrom('git_connections').where('site_id', '=', siteId).execute()
  await tx.deleteFrom('git_previews').where('site_id', '=', siteId).execute()
  await tx.updateTable('sites').set({ active_deploy_id: null }).where('id', '=', siteId).execute()
  await tx.deleteFrom('deploys').where('site_id', '=', siteId).execute()
  await tx.deleteFrom('sites').where('id', '=', siteId).execute()
  await notifyRemoved(tx, siteId)
}

/** Lists the sites whose time in the trash ends by the instant, the earliest first. */
export function listDueTrash(db: Db, before: Date, { limit, afterId }: { limit: number; afterId?: string | undefined }) {
  return db
    .selectFrom('sites')
    .select(['id as site_id', 'name as site_name', 'project_id'])
    .select((eb) => eb.ref('deletion_scheduled_at').$notNull().as('purge_at'))
    .where('deletion_scheduled_at', '<=', before)
    .$if(afterId !== undefined, (query) => query.where('id', '>', afterId ?? ''))
    .orderBy('id')
    .limit(limit)
    .execute()
}
