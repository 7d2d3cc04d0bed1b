import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import type { OwnSettings } from '../../core/build-settings.ts'
import { conflict, notFound } from '../../core/errors.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { forgetExpiredAssets } from '../storage/retained-assets.ts'
import { type Tx, transact } from '../transact.ts'
import { pendingChange } from './subdomain-change-rows.ts'
import { holdSubdomain } from './subdomains.ts'

/** A site with its lock and its pending subdomain change; the members are null when there is none. */
export type SiteRow = Selectable<DB['sites']> & {
  readonly access_mode: AccessMode | null
  readonly pending_subdomain: string | null
  readonly pending_switch_at: Date | null
}

/** The start of every query that returns sites. */
export const withChange = (db: Db) => db.selectFrom('sites').selectAll('sites').select(pendingChange).select(accessMode)

/** How the site is closed. */
const accessMode = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'access_locks'>, 'sites'>) =>
  eb.selectFrom('access_locks').select('access_locks.mode').whereRef('access_locks.site_id', '=', 'sites.id').as('access_mode')

/** The project's sites that are not in the trash, oldest first, in batches. */
export const readSites = (db: Db, projectId: string) =>
  readInPages<SiteRow>(({ after, limit }) =>
    withChange(db)
      .where('sites.project_id', '=', projectId)
      .where('sites.deletion_scheduled_at', 'is', null)
      .$if(after !== undefined, (query) => query.where('sites.id', '>', after?.id ?? ''))
      .orderBy('sites.id')
      .limit(limit)
      .execute(),
  )

/** Undefined when the project has no such site. */
export function findSite(db: Db, projectId: string, id: string): Promise<SiteRow | undefined> {
  return withChange(db).where('sites.project_id', '=', projectId).where('sites.id', '=', id).executeTakeFirst()
}

/** The bare row of a site. */
export type LockedSite = Selectable<DB['sites']>

/**
 * Takes the lock under which the names of a site, its live deploy, its previews, its domains and its time in the trash change. A caller that also
 * needs the project's lock takes that first. Undefined when the project has no such site.
 */
export function lockSite(tx: Tx, projectId: string, id: string): Promise<LockedSite | undefined> {
  return tx
    .selectFrom('sites')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** As {@link lockSite}, for the site of a deploy or a domain. Undefined when that is gone. */
export function lockSiteOf(tx: Tx, table: 'deploys' | 'domains', id: string): Promise<LockedSite | undefined> {
  return tx
    .selectFrom('sites')
    .selectAll()
    .where('id', '=', sql<string>`(select site_id from ${sql.table(table)} where id = ${id})`)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/**
 * As {@link lockSite}, for a change that is allowed only outside the trash.
 * @throws AppError `not_found`; `conflict` when it is in the trash
 */
export async function lockLiveSite(tx: Tx, projectId: string, id: string): Promise<LockedSite> {
  const site = await lockSite(tx, projectId, id)
  if (!site) throw noSuchSite()
  if (site.deletion_scheduled_at) throw inTrash()
  return site
}

/** A site, or something that belongs to a site and knows whether that is in the trash. */
export type OfSite = { readonly deletion_scheduled_at: Date | null } | { readonly trashed: boolean }

export const isTrashed = (row: OfSite): boolean => ('trashed' in row ? row.trashed : row.deletion_scheduled_at !== null)

export const inTrash = () => conflict('the site is in the trash; restore it first', 'in_trash')
export const noSuchSite = () => notFound('there is no site with this id in the project; list_sites shows them all')

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

/** Undefined when the subdomain is taken; the transaction must be rolled back then. The edge is notified with the commit. */
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
  return { ...row, access_mode: null, pending_subdomain: null, pending_switch_at: null }
}

/** The members to change; an undefined one stays. */
export interface SiteChange extends OwnSettings {
  readonly name?: string | undefined
  readonly description?: string | null | undefined
  readonly checks_enabled?: boolean | undefined
  readonly permanent_links?: boolean | undefined
  readonly canonical_urls?: boolean | undefined
  readonly previews_closed?: boolean | undefined
  readonly asset_retention_days?: number | undefined
}

/** The edge is notified with the commit of what it needs. @throws AppError `conflict` when the site is in the trash */
export function updateSite(services: Services, site: Pick<SiteRow, 'id' | 'project_id'>, change: SiteChange): Promise<SiteRow> {
  const update = async (tx: Tx) => {
    const row = await updateLiveSite(tx, site)
      // an undefined member is left out of the statement
      .set({ ...change, updated_at: services.clock() })
      .$if(change.permanent_links === false, (query) => query.set({ permanent_links_generation: nextGeneration }))
      .returningAll()
      .returning(pendingChange)
      .returning(accessMode)
      .executeTakeFirst()
    if (!row) throw inTrash()
    if (change.asset_retention_days !== undefined) await forgetExpiredAssets(tx, services, row)
    const { permanent_links, canonical_urls, previews_closed } = change
    const ofRoute = [permanent_links, canonical_urls, previews_closed]
    if (ofRoute.some((member) => member !== undefined)) await bumpRoutes(tx, { site_id: site.id })
    return row
  }
  return change.asset_retention_days === undefined ? transact(services, update) : withProject(services, site.project_id, update)
}

/** The generation that follows when permanent links are switched off. */
const nextGeneration = sql<number>`permanent_links_generation + permanent_links::integer`

/** The edge is notified with the commit. @throws AppError `conflict` when the site is in the trash */
export function setSiteEnabled(services: Services, site: Pick<SiteRow, 'id' | 'project_id'>, enabled: boolean): Promise<SiteRow> {
  return transact(services, async (tx) => {
    const row = await updateLiveSite(tx, site)
      .set({ enabled, updated_at: services.clock() })
      .returningAll()
      .returning(pendingChange)
      .returning(accessMode)
      .executeTakeFirst()
    if (!row) throw inTrash()
    await bumpRoutes(tx, { site_id: site.id })
    tx.afterCommit(() => services.log.info({ site_id: site.id, enabled }, 'site enabled or disabled'))
    return row
  })
}

const updateLiveSite = (db: Db, { id, project_id }: Pick<SiteRow, 'id' | 'project_id'>) =>
  db.updateTable('sites').where('project_id', '=', project_id).where('id', '=', id).where('deletion_scheduled_at', 'is', null)
