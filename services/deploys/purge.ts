import { deployActions, deployAllows } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import { bumpPermanentLinks, bumpRoutes } from '../feeds/routes.ts'
import { closeUnlessAwaited } from '../previews/branch-previews.ts'
import { endLinksToDeploy } from '../previews/links.ts'
import { withProject } from '../projects/projects.ts'
import { queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { removeBlobsOfDeploy } from '../storage/blobs.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import { forgetAssetsOfDeploy } from '../storage/retained-assets.ts'
import type { Tx } from '../transact.ts'
import { type DeployRow, findDeploy } from './deploys.ts'
import { readFiles } from './files.ts'

/**
 * Deletes the files of a deploy, and its archive if that is kept; its record stays. The flag, the project's use of the storage and the preview links change in one transaction.
 * @param stillWanted asked under the locks, for a choice that was made before them
 * @returns false when its status forbids it, it was purged before, or it is not wanted any more
 * @throws AppError `unavailable` when the storage does not answer; nothing has changed then
 */
export async function purgeDeploy(
  services: Services,
  deploy: Pick<DeployRow, 'id' | 'site_id' | 'project_id' | 'manifest_sha256' | 'source_sha256'>,
  stillWanted: (tx: Tx) => Promise<boolean> = async () => true,
): Promise<boolean> {
  const { log, clock } = services
  const { id, site_id, project_id } = deploy
  const files = deploy.manifest_sha256 === null ? [] : await readFiles(services, deploy.manifest_sha256)
  return await withProject(services, project_id, async (tx) => {
    await lockSiteOf(tx, 'deploys', id)
    if (!(await stillWanted(tx)) || !(await markPurged(tx, project_id, id))) return false
    await removeBlobsOfDeploy(tx, deploy, files, clock())
    if (deploy.source_sha256 !== null) await releaseObjects(tx, [deploy.source_sha256], { now: clock(), published: false })
    const ended = await endLinksToDeploy(tx, id)
    const branches = ended.flatMap(({ git_preview_id }) => git_preview_id ?? [])
    if (branches.length > 0) {
      await closeUnlessAwaited(tx, branches, clock())
      await queueReports(tx, site_id)
    }
    if (ended.length > 0) await bumpRoutes(tx, { site_id })
    else await bumpPermanentLinks(tx, site_id)
    tx.afterCommit(() => log.info({ deploy_id: id, site_id }, 'deploy purged'))
    return true
  })
}

/**
 * Deletes the files of a deploy for its owner, also those that its site retains. May be repeated.
 * @throws AppError `conflict` when its status forbids it; as {@link purgeDeploy}
 */
export async function deleteDeployFiles(services: Services, deploy: DeployRow): Promise<void> {
  if (!deployAllows('purge', deploy.status)) throw notPurgeable(deploy.status)
  if (!deploy.artifacts_purged && !(await purgeDeploy(services, deploy))) {
    const now = await findDeploy(services.db, deploy.project_id, deploy.id)
    if (!now?.artifacts_purged) throw notPurgeable(now?.status ?? deploy.status)
  }
  await forgetAssetsOfDeploy(services, deploy)
}

const notPurgeable = (status: string) =>
  conflict(
    `the files of a deploy that is ${status} cannot be deleted; ${status === 'active' ? 'activate another one first' : 'cancel it or wait until it ends'}`,
    'wrong_status',
  )

/** Marks the artifacts as deleted; the record stays. Undefined when its status forbids it or they were deleted before. */
function markPurged(tx: Tx, projectId: string, id: string): Promise<DeployRow | undefined> {
  return tx
    .updateTable('deploys')
    .set({ artifacts_purged: true, source_sha256: null })
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where('status', 'in', deployActions.purge)
    .where('artifacts_purged', '=', false)
    .returningAll()
    .executeTakeFirst()
}
