import { unavailable } from '../../core/errors.ts'
import type { Cas } from '../cas/cas.ts'
import { readManifest } from '../cas/manifests.ts'
import { markPurged } from '../db/artifacts.ts'
import { removeBlobsOfDeploy } from '../db/blobs.ts'
import type { Db, Tx } from '../db/database.ts'
import { type DeployRow, lockSiteOfDeploy } from '../db/deploys.ts'
import { endGitPreviewOfDeploy } from '../db/git-previews.ts'
import { endPreview } from '../db/previews.ts'
import { lockProject } from '../db/projects.ts'
import { bumpRoutes } from '../db/routes.ts'
import type { Logger } from '../log.ts'

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
