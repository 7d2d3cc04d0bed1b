import { deployActions } from '../../core/deploy.ts'
import { unavailable } from '../../core/errors.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import type { Db, Tx } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { endGitPreviewOfDeploy } from '../previews/git-previews.ts'
import { endPreview } from '../previews/previews.ts'
import { lockProject } from '../projects/projects.ts'
import { removeBlobsOfDeploy } from '../storage/blobs.ts'
import { type DeployRow, lockSiteOfDeploy } from './deploys.ts'

export interface ArtifactDeps {
  readonly db: Db
  readonly cas: Cas
  readonly log: Logger
  readonly clock: () => Date
  /** Has the forge of a site told that a preview of a branch has ended, in the transaction of its end. */
  readonly queueReports: (tx: Tx, siteId: string) => Promise<void>
}

/**
 * Deletes the files of a deploy; its record stays. The flag, its part of the project's storage and the links that show it go in one transaction.
 * @param stillWanted asked under the locks, for a choice that was made before them
 * @returns false when its status forbids it, it was done before, or it is not wanted any more
 * @throws AppError `unavailable` when the storage does not answer: nothing has changed then
 */
export async function purgeDeploy(
  { db, cas, log, clock, queueReports }: ArtifactDeps,
  deploy: Pick<DeployRow, 'id' | 'site_id' | 'project_id' | 'manifest_sha256'>,
  stillWanted: (tx: Tx) => Promise<boolean> = async () => true,
): Promise<boolean> {
  const { id, site_id, project_id } = deploy
  const files = await filesOf(cas, deploy.manifest_sha256, log)
  const purged = await db.transaction().execute(async (tx) => {
    await lockProject(tx, project_id)
    await lockSiteOfDeploy(tx, id)
    if (!(await stillWanted(tx)) || !(await markPurged(tx, project_id, id))) return false
    await removeBlobsOfDeploy(tx, deploy, files, clock())
    const ended = await endPreview(tx, id)
    const endedOfBranch = await endGitPreviewOfDeploy(tx, id, clock())
    if (endedOfBranch) await queueReports(tx, site_id)
    if (ended || endedOfBranch) await bumpRoutes(tx, { site_id })
    return true
  })
  if (purged) log.info({ deploy_id: id, site_id }, 'deploy purged')
  return purged
}

async function filesOf(cas: Cas, manifestSha256: string | null, log: Logger) {
  if (manifestSha256 === null) return []
  try {
    return (await readManifest(cas, manifestSha256)).files
  } catch (error) {
    log.error({ err: error, sha256: manifestSha256 }, 'manifest unreadable')
    throw unavailable('the storage does not answer; try again in a few seconds')
  }
}

/** Marks the artifacts as deleted; the record stays. Undefined when its status forbids it or it was done before. */
function markPurged(tx: Tx, projectId: string, id: string): Promise<DeployRow | undefined> {
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
