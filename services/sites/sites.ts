import type { Selectable } from 'kysely'
import type { Db, Tx } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { pendingChange } from './subdomain-changes.ts'
import { holdSubdomain } from './subdomains.ts'

/** A site with the subdomain change that it waits for; both members are null when there is none. */
export type SiteRow = Selectable<DB['sites']> & {
  readonly pending_subdomain: string | null
  readonly pending_switch_at: Date | null
}

/** Every query that answers sites begins with it. */
export const withChange = (db: Db) => db.selectFrom('sites').selectAll('sites').select(pendingChange)

/** The project's sites that are not in the trash, oldest first. */
export function listSites(db: Db, projectId: string): Promise<SiteRow[]> {
  return withChange(db)
    .where('sites.project_id', '=', projectId)
    .where('sites.deletion_scheduled_at', 'is', null)
    .orderBy('sites.id')
    .execute()
}

/** Undefined when the project has no such site. */
export function findSite(db: Db, projectId: string, id: string): Promise<SiteRow | undefined> {
  return withChange(db).where('sites.project_id', '=', projectId).where('sites.id', '=', id).executeTakeFirst()
}

/** The bare row, with the lock under which its names and its time in the trash change. */
export function lockSite(tx: Tx, projectId: string, id: string): Promise<Selectable<DB['sites']> | undefined> {
  return tx
    .selectFrom('sites')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** How many sites count against the quota. */
export async function countSites(db: Db, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom('sites')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .where('deletion_scheduled_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Undefined when the subdomain is taken: the transaction has to be given up. The edge learns of the site with the commit. */
export async function insertSite(
  tx: Tx,
  site: { project_id: string; name: string; subdomain: string },
  now: Date,
): Promise<SiteRow | undefined> {
  const row = await tx
    .insertInto('sites')
    .values(site)
    .onConflict((conflict) => conflict.column('subdomain').doNothing())
    .returningAll()
    .executeTakeFirst()
  if (!row) return undefined
  const { id: site_id, project_id } = row
  if (!(await holdSubdomain(tx, site.subdomain, { site_id, project_id }, 'current', now))) return undefined
  await bumpRoutes(tx, { site_id })
  return { ...row, pending_subdomain: null, pending_switch_at: null }
}

/** Undefined when the project has no such live site. */
export function updateSite(
  db: Db,
  projectId: string,
  id: string,
  change: {
    name: string
    description?: string | null | undefined
    checks_enabled?: boolean | undefined
    root_dir?: string | null | undefined
    updated_at: Date
  },
): Promise<SiteRow | undefined> {
  const { description, checks_enabled, root_dir, ...always } = change
  return db
    .updateTable('sites')
    .set({
      ...always,
      ...(description === undefined ? {} : { description }),
      ...(checks_enabled === undefined ? {} : { checks_enabled }),
      ...(root_dir === undefined ? {} : { root_dir }),
    })
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where('deletion_scheduled_at', 'is', null)
    .returningAll()
    .returning(pendingChange)
    .executeTakeFirst()
}

/** Undefined when the project has no such live site. The edge follows with the commit. */
export async function setSiteEnabled(
  tx: Tx,
  projectId: string,
  id: string,
  change: { enabled: boolean; updated_at: Date },
): Promise<SiteRow | undefined> {
  const row = await tx
    .updateTable('sites')
    .set(change)
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where('deletion_scheduled_at', 'is', null)
    .returningAll()
    .returning(pendingChange)
    .executeTakeFirst()
  if (row) await bumpRoutes(tx, { site_id: id })
  return row
}
