import type { Selectable } from 'kysely'
import type { Db, Tx } from './database.ts'
import { bumpRoutes } from './routes.ts'
import type { DB } from './schema.ts'

export type SiteRow = Selectable<DB['sites']>

/** The project's sites that are not in the trash, oldest first. */
export function listSites(db: Db, projectId: string): Promise<SiteRow[]> {
  return db
    .selectFrom('sites')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('deletion_scheduled_at', 'is', null)
    .orderBy('id')
    .execute()
}

/** Undefined when the project has no such site. */
export function findSite(db: Db, projectId: string, id: string): Promise<SiteRow | undefined> {
  return db.selectFrom('sites').selectAll().where('project_id', '=', projectId).where('id', '=', id).executeTakeFirst()
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

export async function isSubdomainTaken(db: Db, subdomain: string): Promise<boolean> {
  return (await db.selectFrom('sites').select('id').where('subdomain', '=', subdomain).executeTakeFirst()) !== undefined
}

/** Undefined when the subdomain is taken. The edge learns of the site with the commit. */
export async function insertSite(
  tx: Tx,
  site: { project_id: string; name: string; subdomain: string },
): Promise<SiteRow | undefined> {
  const row = await tx
    .insertInto('sites')
    .values(site)
    .onConflict((conflict) => conflict.column('subdomain').doNothing())
    .returningAll()
    .executeTakeFirst()
  if (row) await bumpRoutes(tx, { site_id: row.id })
  return row
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
    .executeTakeFirst()
  if (row) await bumpRoutes(tx, { site_id: id })
  return row
}
