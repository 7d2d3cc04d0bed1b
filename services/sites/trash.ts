import type { Db, Tx } from '../../infra/db/database.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { type SiteRow, withChange } from './sites.ts'
import { cancelSubdomainChange, type SubdomainChangeRow } from './subdomain-changes.ts'

/**
 * Puts the site into the trash and ends its pending subdomain change. Undefined when the project has no such live site. The edge learns
 * of it with the commit.
 */
export async function trashSite(
  tx: Tx,
  projectId: string,
  siteId: string,
  { now, purgeAt }: { readonly now: Date; readonly purgeAt: Date },
): Promise<{ site: SiteRow; cancelled: SubdomainChangeRow | undefined } | undefined> {
  const trashed = await tx
    .updateTable('sites')
    .set({ deletion_scheduled_at: purgeAt, updated_at: now })
    .where('project_id', '=', projectId)
    .where('id', '=', siteId)
    .where('deletion_scheduled_at', 'is', null)
    .executeTakeFirst()
  if (trashed.numUpdatedRows === 0n) return undefined
  const cancelled = await cancelSubdomainChange(tx, siteId, now)
  const site = await withChange(tx).where('sites.id', '=', siteId).executeTakeFirstOrThrow()
  await bumpRoutes(tx, { site_id: siteId })
  return { site, cancelled }
}

/** The project's sites in the trash, the one that goes first in front. */
export function listTrashedSites(db: Db, projectId: string): Promise<SiteRow[]> {
  return withChange(db)
    .where('sites.project_id', '=', projectId)
    .where('sites.deletion_scheduled_at', 'is not', null)
    .orderBy('sites.deletion_scheduled_at')
    .orderBy('sites.id')
    .execute()
}

/**
 * Takes the site out of the trash, as it was. Undefined when it is not there or its removal has begun. The edge learns of it with
 * the commit.
 */
export async function restoreSite(tx: Tx, projectId: string, siteId: string, now: Date): Promise<SiteRow | undefined> {
  const restored = await tx
    .updateTable('sites')
    .set({ deletion_scheduled_at: null, updated_at: now })
    .where('project_id', '=', projectId)
    .where('id', '=', siteId)
    .where('deletion_scheduled_at', 'is not', null)
    .where('purging', '=', false)
    .executeTakeFirst()
  if (restored.numUpdatedRows === 0n) return undefined
  const site = await withChange(tx).where('sites.id', '=', siteId).executeTakeFirstOrThrow()
  await bumpRoutes(tx, { site_id: siteId })
  return site
}
