import type { ExpressionBuilder } from 'kysely'
import { maxPermanentLinks } from '../../core/limits.ts'
import { plansWith } from '../../core/plans.ts'
import type { DB } from '../../infra/db/schema.ts'

/** The deploys of a site that keep their files, newest first, while the site has permanent links and its plan allows them. */
export const permanentLinks = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'projects' | 'deploys'>, 'sites' | 'projects'>) =>
  eb
    .selectFrom('deploys as kept')
    .select(['kept.id as deploy_id', 'sites.permanent_links_generation as generation'])
    .select((eb) => eb.ref('kept.manifest_sha256').$notNull().as('manifest_sha256'))
    .whereRef('kept.site_id', '=', 'sites.id')
    .where('sites.permanent_links', '=', true)
    .where('projects.plan', 'in', plansWith('permanent_links'))
    .where('kept.status', 'in', ['ready', 'active', 'superseded'])
    .where('kept.artifacts_purged', '=', false)
    .where('kept.manifest_sha256', 'is not', null)
    .where('kept.file_count', '>', 0)
    .orderBy('kept.seq', 'desc')
    .limit(maxPermanentLinks)
