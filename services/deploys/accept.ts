import type { Recommendation } from '../../core/checks/recommendation.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { deployStart } from '../../workflows/contract/deploys.ts'
import type { Services } from '../services.ts'
import { inTrash } from '../sites/sites.ts'
import { addNewBlobs, type Blob, bytesOf, countHeldBlobs, missingBlobs, unknownBlob } from '../storage/blobs.ts'
import type { PendingUpload } from '../storage/pending-upload.ts'
import { requireRoom } from '../storage/quota.ts'
import type { Tx } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { type DeployRow, insertDeploy, type NewDeploy } from './deploys.ts'
import { checkDeployGates } from './gates.ts'

type Request = Pick<NewDeploy, 'source_kind' | 'activate' | 'title'>

export interface StoredFiles extends Request {
  readonly copy: NonNullable<NewDeploy['copy']>
  readonly files: readonly ManifestEntry[]
  /** Files that name a blob of the project by its hash alone. */
  readonly references: readonly { readonly path: string; readonly sha256: string }[]
  /** The recommendations; undefined while the files are still being checked. */
  readonly recommendations?: () => readonly Recommendation[] | undefined
}

/** A deploy whose bytes are in its upload, or stored: an archive to build, or a manifest of stored files. */
export type StoredDeploy = StoredFiles | (Request & { readonly source: NonNullable<NewDeploy['source']> })

/**
 * Accepts a deploy: gates, the row, the start of its workflow and the publication of its objects, in one transaction. The returned deploy is durable.
 * @throws AppError from the gates; `conflict` when the site is in the trash; `invalid` for a reference to a blob that is not the project's
 */
export function acceptDeploy(
  services: Services,
  site: DeployedSite,
  deploy: StoredDeploy,
  upload: PendingUpload,
): Promise<DeployRow> {
  return upload.accept(async (tx, project) => {
    const added = 'files' in deploy ? await countHeldBlobs(tx, project.id, deploy.files) : [deploy.source]
    if ('files' in deploy) requireReferences(deploy, added)
    const room = { addedBytes: bytesOf(added), upload: upload.id }
    await checkDeployGates(tx, services, project, { ...room, activate: deploy.activate })
    await requireRoom(tx, services, project, room)
    const { source_kind, activate, title } = deploy
    const content =
      'files' in deploy ? { copy: deploy.copy, recommendations: deploy.recommendations?.() } : { source: deploy.source }
    const row = await queueDeploy(tx, site, { source_kind, activate, title, ...content }, services.clock())
    if ('files' in deploy) await addNewBlobs(tx, project.id, added)
    tx.afterCommit(() => services.log.info({ deploy_id: row.id, site_id: site.id, source_kind }, 'deploy accepted'))
    return row
  })
}

export interface DeployedSite {
  readonly id: string
  readonly project_id: string
  readonly name: string
}

/**
 * Writes the row of a deploy and the start of its workflow. The caller holds the project's lock and has passed the gates.
 * @param git_ref the branch or preview of a git deploy
 * @throws AppError `conflict` when the site is in the trash
 */
export async function queueDeploy(
  tx: Tx,
  site: DeployedSite,
  deploy: Omit<NewDeploy, 'site_id' | 'project_id'>,
  now: Date,
  git_ref?: string,
): Promise<DeployRow> {
  const row = await insertDeploy(tx, { ...deploy, site_id: site.id, project_id: site.project_id }, now)
  if (!row) throw inTrash()
  const { id, ...facts } = row
  await startWorkflow(tx, deployStart({ ...facts, deploy_id: id, site_name: site.name, git_ref }))
  return row
}

/** A purge or the sweeper may have removed a referenced blob since it was looked up; from now on the rows are kept. */
function requireReferences({ source_kind, references }: StoredFiles, added: readonly Blob[]): void {
  const absent = new Set(added.map((blob) => blob.sha256))
  const missing = references.filter((file) => absent.has(file.sha256))
  const [first] = missing
  if (!first) return
  throw source_kind === 'manifest' ? missingBlobs(missing.map((file) => file.sha256)) : unknownBlob(first)
}
