import { sql } from 'kysely'
import { failedSourcePeriodMs, maxFailedSources, previewLinkPeriodMs } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { closeExpiredBranchPreviews, listSitesOfExpiredBranchPreviews } from '../previews/branch-previews.ts'
import { endLinkOfDeploy, listExpiredLinks } from '../previews/links.ts'
import { findPlanOfSite, withProject } from '../projects/projects.ts'
import { queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { lockSite, lockSiteOf } from '../sites/sites.ts'
import { transact } from '../transact.ts'
import type { DeployRow } from './deploys.ts'
import { purgeDeploy } from './purge.ts'

const expiryOf = ({ clock }: Services) => new Date(clock().getTime() - previewLinkPeriodMs)

/**
 * Purges the inactive deploys of a site beyond those that its plan keeps for a rollback, and the sources of failed ones that are kept no longer,
 * and ends expired preview links.
 * A deploy with a current link is neither counted nor purged. Returns the number of purged deploys; may be repeated.
 * @throws AppError `unavailable` when the storage does not answer; the rest is left for the next time
 */
export async function applyRetention(services: Services, siteId: string): Promise<number> {
  const { db, config, log } = services
  const issuedAfter = expiryOf(services)
  const plan = await findPlanOfSite(db, siteId)
  const skip = plan && config.plans[plan].inactive_deploys
  const listExcess = async (tx: Db): Promise<DeployRow[]> =>
    typeof skip === 'number' ? await listExcessDeploys(tx, siteId, { skip, issuedAfter }) : []

  let purged = 0
  for (const deploy of await listExcess(db)) {
    const isExcess = async (tx: Db) => (await listExcess(tx)).some(({ id }) => id === deploy.id)
    if (await purgeDeploy(services, deploy, isExcess)) purged += 1
  }
  for (const deploy of await listOldSources(services, siteId)) if (await purgeDeploy(services, deploy)) purged += 1
  for (const { deploy_id } of await listExpiredLinks(db, issuedAfter, siteId)) {
    await transact(services, async (tx) => {
      await lockSiteOf(tx, 'deploys', deploy_id)
      if (!(await endLinkOfDeploy(tx, deploy_id, issuedAfter))) return
      await bumpRoutes(tx, { site_id: siteId })
      tx.afterCommit(() => log.info({ deploy_id, site_id: siteId }, 'preview link expired'))
    })
  }
  await closeOldBranchPreviews(services, siteId, issuedAfter)
  return purged
}

async function closeOldBranchPreviews(services: Services, siteId: string, pushedBy: Date): Promise<void> {
  const { db, clock, log } = services
  for (const { site_id, project_id } of await listSitesOfExpiredBranchPreviews(db, pushedBy, siteId)) {
    await withProject(services, project_id, async (tx) => {
      await lockSite(tx, project_id, site_id)
      await queueReports(tx, site_id)
      for (const { id } of await closeExpiredBranchPreviews(tx, site_id, pushedBy, clock())) {
        tx.afterCommit(() => log.info({ preview_id: id, site_id }, 'branch preview expired'))
      }
    })
  }
}

/**
 * Runs {@link applyRetention} for every site with an expired preview or source. A site that fails is logged and left for the next time. Returns the
 * number of purged deploys.
 */
export async function applyRetentionEverywhere(services: Services): Promise<number> {
  const { db, log } = services
  const expiry = expiryOf(services)
  const expired = [
    ...(await listExpiredLinks(db, expiry)),
    ...(await listSitesOfExpiredBranchPreviews(db, expiry)),
    ...(await listOldSources(services)),
  ]
  let purged = 0
  for (const site_id of new Set(expired.map((preview) => preview.site_id))) {
    try {
      purged += await applyRetention(services, site_id)
    } catch (error) {
      log.warn({ err: error, site_id }, 'retention failed')
    }
  }
  return purged
}

/** Failed deploys of a site, or of all, whose source is kept although it is too old, or three later ones are kept. */
async function listOldSources({ db, clock }: Services, siteId?: string): Promise<DeployRow[]> {
  const before = new Date(clock().getTime() - failedSourcePeriodMs)
  const ofSite = siteId === undefined ? sql`` : sql`and site_id = ${siteId}`
  const { rows } = await sql<DeployRow>`
    select * from (
      select *, row_number() over (partition by site_id order by seq desc) as place from deploys
      where status = 'failed' and not artifacts_purged and (source_sha256 is not null or manifest_sha256 is not null) ${ofSite}
    ) as kept
    where place > ${maxFailedSources} or finished_at < ${before}`.execute(db)
  return rows
}

/**
 * Inactive deploys of the site that keep their files, besides those that wait for their activation and those that a link shows which was
 * issued later than `issuedAfter`, or whose branch was pushed to later. The one that was live or created last comes first, because a rollback wants it.
 * @param skip how many of them to keep
 */
function listExcessDeploys(
  db: Db,
  siteId: string,
  { skip, issuedAfter }: { skip: number; issuedAfter: Date },
): Promise<DeployRow[]> {
  return db
    .selectFrom('deploys')
    .selectAll()
    .where('deploys.site_id', '=', siteId)
    .where('deploys.status', 'in', ['ready', 'superseded'])
    .where('deploys.artifacts_purged', '=', false)
    .where((eb) => eb.or([eb('deploys.status', '=', 'superseded'), eb('deploys.activate', '=', false)]))
    .where(
      sql<boolean>`not exists (
        select from preview_links left join git_previews on git_previews.id = preview_links.git_preview_id
        where preview_links.deploy_id = deploys.id
          and coalesce(git_previews.updated_at, preview_links.issued_at) > ${issuedAfter}
      )`,
    )
    .orderBy((eb) => eb.fn.coalesce('deploys.activated_at', 'deploys.created_at'), 'desc')
    .orderBy('deploys.seq', 'desc')
    .offset(skip)
    .execute()
}
