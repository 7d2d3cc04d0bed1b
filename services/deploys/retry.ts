import { deployAllows } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { addBlobsOfDeploy } from '../storage/blobs.ts'
import { keepObjects } from '../storage/stored-objects.ts'
import type { Tx } from '../transact.ts'
import { type DeployedSite, queueDeploy } from './accept.ts'
import { type DeployRow, findDeploy, type NewDeploy } from './deploys.ts'
import { filesDeleted, readFiles } from './files.ts'
import { checkDeployGates } from './gates.ts'

/**
 * Accepts a new deploy of the same archive or the same files. An archive is kept for a while after its deploy has failed, files as long as their
 * deploy keeps them.
 * @throws AppError from the gates; `conflict` when the deploy has not ended, its source is gone, or the site is in the trash
 */
export async function retryStoredDeploy(services: Services, site: DeployedSite, deploy: DeployRow): Promise<DeployRow> {
  const { manifest_sha256 } = deploy
  const isCopy = deploy.source_kind !== 'archive'
  requireEnded(deploy)
  if (isCopy && deploy.artifacts_purged) throw filesDeleted()
  const files = isCopy && manifest_sha256 !== null ? await readFiles(services, manifest_sha256) : []
  return await withProject(services, site.project_id, async (tx, project) => {
    const before = await findDeploy(tx, site.project_id, deploy.id)
    const content = before && (await contentOf(tx, services, before))
    if (!content) throw isCopy ? filesDeleted() : archiveGone()
    const { source_kind, activate, title } = deploy
    await checkDeployGates(tx, services, project, { addedBytes: 0, activate })
    const row = await queueDeploy(tx, site, { source_kind, activate, title: title ?? undefined, ...content }, services.clock())
    if (isCopy) await addFiles(tx, site, files)
    tx.afterCommit(() => services.log.info({ deploy_id: row.id, site_id: site.id, retried: deploy.id }, 'deploy retried'))
    return row
  })
}

const addFiles = (tx: Tx, { project_id }: DeployedSite, files: readonly ManifestEntry[]) =>
  addBlobsOfDeploy(tx, project_id, files)

/** What is still there of the deploy for another one; undefined when it is gone. */
async function contentOf(tx: Tx, services: Services, deploy: DeployRow): Promise<Pick<NewDeploy, 'source' | 'copy'> | undefined> {
  const { source_kind, source_sha256, source_bytes, manifest_sha256, artifacts_purged } = deploy
  if (artifacts_purged) return undefined
  const sha256 = source_kind === 'archive' ? source_sha256 : manifest_sha256
  if (sha256 === null || !(await keepObjects(tx, services, [sha256]))) return undefined
  if (source_kind === 'archive') return { source: { sha256, size: source_bytes ?? 0 } }
  const { file_count, total_bytes, skipped_paths } = deploy
  return { copy: { manifest_sha256: sha256, file_count: file_count ?? 0, total_bytes: total_bytes ?? 0, skipped_paths } }
}

/** @throws AppError `conflict` while the deploy is queued or building */
export function requireEnded({ status }: Pick<DeployRow, 'status'>): void {
  if (deployAllows('retry', status)) return
  throw conflict(`this deploy is ${status}; cancel it or wait until it has ended`, 'wrong_status')
}

const archiveGone = () =>
  conflict('the archive of this deploy is gone: only those of the latest failed deploys are kept; send it again', 'source_gone')
