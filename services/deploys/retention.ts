import { sql } from 'kysely'
import { previewLinkPeriodMs } from '../../core/limits.ts'
import type { Plans } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { closeExpiredGitPreviews, listSitesOfExpiredGitPreviews } from '../previews/git-previews.ts'
import { endPreview, listExpiredPreviews } from '../previews/previews.ts'
import { findPlanOfSite, lockProject } from '../projects/projects.ts'
import { lockSite } from '../sites/sites.ts'
import { type DeployRow, lockSiteOfDeploy } from './deploys.ts'
import { type ArtifactDeps, purgeDeploy } from './purge.ts'

export interface RetentionDeps extends ArtifactDeps {
  readonly plans: Plans
}

const expiryOf = (deps: RetentionDeps) => new Date(deps.clock().getTime() - previewLinkPeriodMs)

/**
 * Purges the inactive deploys of a site beyond those that its plan keeps for a rollback, and ends preview links that are too old.
 * A deploy with a younger link is neither counted nor purged. Answers how many were purged; may be repeated.
 * @throws AppError `unavailable` when the storage does not answer: the rest stays for the next time
 */
export async function applyRetention(deps: RetentionDeps, siteId: string): Promise<number> {
  const { db, plans, log } = deps
  const issuedAfter = expiryOf(deps)
  const plan = await findPlanOfSite(db, siteId)
  const skip = plan && plans[plan].inactive_deploys
  const listExcess = async (tx: typeof db): Promise<DeployRow[]> =>
    typeof skip === 'number' ? await listExcessDeploys(tx, siteId, { skip, issuedAfter }) : []

  let purged = 0
  for (const deploy of await listExcess(db)) {
    const isExcess = async (tx: typeof db) => (await listExcess(tx)).some(({ id }) => id === deploy.id)
    if (await purgeDeploy(deps, deploy, isExcess)) purged += 1
  }
  for (const { deploy_id } of await listExpiredPreviews(db, issuedAfter, siteId)) {
    await db.transaction().execute(async (tx) => {
      await lockSiteOfDeploy(tx, deploy_id)
      if (await endPreview(tx, deploy_id, issuedAfter)) await bumpRoutes(tx, { site_id: siteId })
    })
    log.info({ deploy_id, site_id: siteId }, 'preview link expired')
  }
  await closeOldGitPreviews(deps, siteId, issuedAfter)
  return purged
}

async function closeOldGitPreviews(
  { db, log, clock, queueReports }: RetentionDeps,
  siteId: string,
  pushedBy: Date,
): Promise<void> {
  for (const { site_id, project_id } of await listSitesOfExpiredGitPreviews(db, pushedBy, siteId)) {
    const closed = await db.transaction().execute(async (tx) => {
      await lockProject(tx, project_id)
      await lockSite(tx, project_id, site_id)
      await queueReports(tx, site_id)
      return await closeExpiredGitPreviews(tx, site_id, pushedBy, clock())
    })
    for (const { id } of closed) log.info({ preview_id: id, site_id }, 'preview of a branch expired')
  }
}

/**
 * Does what time alone asks for: {@link applyRetention} for every site with a preview that is too old. A site that fails is logged
 * and left for the next time. Answers how many deploys were purged.
 */
export async function applyRetentionEverywhere(deps: RetentionDeps): Promise<number> {
  const { db } = deps
  const expiry = expiryOf(deps)
  const expired = [...(await listExpiredPreviews(db, expiry)), ...(await listSitesOfExpiredGitPreviews(db, expiry))]
  let purged = 0
  for (const site_id of new Set(expired.map((preview) => preview.site_id))) {
    try {
      purged += await applyRetention(deps, site_id)
    } catch (error) {
      deps.log.warn({ err: error, site_id }, 'retention failed')
    }
  }
  return purged
}

/**
 * Inactive deploys of the site that keep their files, besides those that wait for their activation and those that a link shows which was
 * issued later than `issuedAfter`, or whose branch was pushed to later. The one that was live or made last comes first: it is what a rollback wants.
 * @param skip how many of them stay
 */
function listExcessDeploys(
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
