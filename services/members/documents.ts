import type { Selectable } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { transact } from '../transact.ts'
import { raiseConsentVersion, type Site } from './settings.ts'

/** A document that the login page shows, and to which members consent. */
export type SiteDocument = Pick<Selectable<DB['site_documents']>, 'id' | 'title' | 'url'>

/** The documents of a site in the order of its owner. */
export const listDocuments = (db: Db, siteId: string): Promise<SiteDocument[]> =>
  db.selectFrom('site_documents').select(['id', 'title', 'url']).where('site_id', '=', siteId).orderBy('position').execute()

/**
 * Replaces the documents of a site; a document with the same title and address keeps its id.
 * @throws AppError `conflict` when the site is in the trash
 */
export function setDocuments(
  services: Services,
  site: Site,
  documents: readonly Omit<SiteDocument, 'id'>[],
  asksAgain: boolean,
): Promise<void> {
  const { id: site_id, project_id } = site
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const former = await listDocuments(tx, site_id)
    const rows = documents.map(({ title, url }, position) => {
      const same = former.findIndex((one) => one.title === title && one.url === url)
      const [kept] = same < 0 ? [] : former.splice(same, 1)
      return { ...(kept && { id: kept.id }), site_id, project_id, position, title, url }
    })
    await tx.deleteFrom('site_documents').where('site_id', '=', site_id).execute()
    for (const row of rows) await tx.insertInto('site_documents').values(row).execute()
    if (asksAgain) await raiseConsentVersion(services, tx, site)
    else await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ site_id, documents: rows.length }, 'documents of a site changed'))
  })
}
