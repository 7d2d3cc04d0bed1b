import { sql } from 'kysely'
import { deployActions } from '../../core/deploy.ts'
import type { Db, Tx } from './database.ts'
import type { DeployRow } from './deploys.ts'

/**
 * Inactive deploys of the site that keep their files, besides those that wait for their activation and those that a link shows which was
 * issued later than `issuedAfter`, or whose branch was pushed to later. The one that was live or made last comes first: it is what a rollback wants.
 * @param skip how many of them stay
 */
export function listExcessDeploys(
  db: Db,
  siteId: string,
  { skip, issuedAfter }: { skip: number; issuedAfter: Date },
): Promise<DeployRow[]> {
  return db
    .selectFrom('deploys')
    .leftJoin('previews', 'previews.deploy_id', 'deploys.id')
    .selectAll('deploys')
    .where('deploys.site_id', '=', siteId)
    .where('deploys.status', 'in', ['ready', 'superseded'])
    .where('deploys.artifacts_purged', '=', false)
    .where((eb) => eb.or([eb('deploys.status', '=', 'superseded'), eb('deploys.activate', '=', false)]))
    .where((eb) => eb.or([eb('previews.issued_at', 'is', null), eb('previews.issued_at', '<=', issuedAfter)]))
    .where(
      sql<boolean>`not exists (select from git_previews where git_previews.deploy_id = deploys.id and git_previews.updated_at > ${issuedAfter})`,
    )
    .orderBy((eb) => eb.fn.coalesce('deploys.activated_at', 'deploys.created_at'), 'desc')
    .orderBy('deploys.seq', 'desc')
    .offset(skip)
    .execute()
}

/** Marks the artifacts as deleted; the record stays. Undefined when its status forbids it or it was done before. */
export function markPurged(tx: Tx, projectId: string, id: string): Promise<DeployRow | undefined> {
  return tx
    .updateTable('deploys')
    .set({ artifacts_purged: true })
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where('status', 'in', deployActions.purge)
    .where('artifacts_purged', '=', false)
    .returningAll()
    .executeTakeFirst()
}
