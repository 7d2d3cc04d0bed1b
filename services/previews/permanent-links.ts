import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { permanentLinks } from '../feeds/permanent-links.ts'

/** A permanent link of a site; undefined when the deploy has none there. */
export async function findPermanentLink(db: Db, siteId: string, deployId: string) {
  const [link] = await listPermanentLinks(db, [siteId], [deployId])
  return link
}

/** Those of the deploys that have a permanent link, with the generation of its token. */
export async function listPermanentLinks(
  db: Db,
  sites: readonly string[],
  deploys: readonly string[],
): Promise<{ readonly deploy_id: string; readonly generation: number }[]> {
  if (deploys.length === 0) return []
  return await db
    .selectFrom('sites')
    .innerJoin('projects', 'projects.id', 'sites.project_id')
    .innerJoinLateral(
      (eb) => permanentLinks(eb).as('link'),
      (join) => join.onTrue(),
    )
    .select(['link.deploy_id', 'link.generation'])
    .where('sites.id', '=', sql<string>`any(${sites}::uuid[])`)
    .where('link.deploy_id', '=', sql<string>`any(${deploys}::uuid[])`)
    .execute()
}
