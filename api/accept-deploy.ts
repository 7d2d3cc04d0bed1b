import type { Recommendation } from '../core/checks/recommendation.ts'
import { conflict } from '../core/errors.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import type { Tx } from '../infra/db/database.ts'
import { type DeployRow, insertDeploy, type NewDeploy } from '../services/deploys/deploys.ts'
import { addBlobsOfDeploy, type Blob, bytesOf, newBlobs } from '../services/storage/blobs.ts'
import { insertWorkflowStart } from '../services/workflow-messages.ts'
import { deployStart } from '../workflows/contract.ts'
import type { Deps } from './context.ts'
import { checkDeployGates } from './gates.ts'
import type { PendingUpload } from './pending-upload.ts'
import { missingBlobs, unknownBlob } from './store-files.ts'

type Request = Pick<NewDeploy, 'source_kind' | 'activate'>

export interface StoredFiles extends Request {
  readonly copy: NonNullable<NewDeploy['copy']>
  readonly files: readonly ManifestEntry[]
  /** Files that name a blob of the project by its hash alone. */
  readonly references: readonly { readonly path: string; readonly sha256: string }[]
  /** What there is to recommend; undefined while the files are still looked through. */
  readonly advice?: () => readonly Recommendation[] | undefined
}

/** A deploy whose bytes are in its upload, or stored: an archive to build, or a manifest of stored files. */
export type StoredDeploy = StoredFiles | (Request & { readonly source: NonNullable<NewDeploy['source']> })

export const inTrash = () => conflict('the site is in the trash; restore it first')

/**
 * Accepts a deploy: gates, the row, the start of its workflow and the places of its objects in one transaction. What it returns is durable.
 * @throws AppError as the gates say; `conflict` when the site is in the trash; `invalid` for a reference to a blob that is not the project's
 */
export async function acceptDeploy(
  ctx: Deps,
  site: DeployedSite,
  deploy: StoredDeploy,
  upload: PendingUpload,
): Promise<DeployRow> {
  const accepted = await upload.accept(async (tx, project) => {
    const added = 'files' in deploy ? await newBlobs(tx, project.id, deploy.files) : [deploy.source]
    if ('files' in deploy) requireReferences(deploy, added)
    await checkDeployGates(tx, ctx, project, { addedBytes: bytesOf(added), activate: deploy.activate, upload: upload.id })
    const { source_kind, activate } = deploy
    const content = 'files' in deploy ? { copy: deploy.copy, recommendations: deploy.advice?.() } : { source: deploy.source }
    const row = await beginDeploy(tx, site, { source_kind, activate, ...content }, ctx.clock())
    if ('files' in deploy) await addBlobsOfDeploy(tx, project.id, deploy.files)
    return row
  })
  ctx.relay.wake()
  ctx.log.info({ deploy_id: accepted.id, site_id: site.id, source_kind: accepted.source_kind }, 'deploy accepted')
  return accepted
}

export interface DeployedSite {
  readonly id: string
  readonly project_id: string
  readonly name: string
}

/**
 * Writes the row of a deploy and the start of its workflow. The caller holds the project's lock, has passed the gates, and wakes the relay
 * after the commit.
 * @param git_ref of a git deploy: its branch or preview
 * @throws AppError `conflict` when the site is in the trash
 */
export async function beginDeploy(
  tx: Tx,
  site: DeployedSite,
  deploy: Omit<NewDeploy, 'site_id' | 'project_id'>,
  now: Date,
  git_ref?: string,
): Promise<DeployRow> {
  const row = await insertDeploy(tx, { ...deploy, site_id: site.id, project_id: site.project_id }, now)
  if (!row) throw inTrash()
  const { id, ...facts } = row
  await insertWorkflowStart(tx, deployStart({ ...facts, deploy_id: id, site_name: site.name, git_ref }))
  return row
}

/** A purge or the sweeper may have taken a referenced blob since it was looked up; from now on the rows are kept. */
function requireReferences({ source_kind, references }: StoredFiles, added: readonly Blob[]): void {
  const absent = new Set(added.map((blob) => blob.sha256))
  const missing = references.filter((file) => absent.has(file.sha256))
  const [first] = missing
  if (!first) return
  throw source_kind === 'manifest' ? missingBlobs(missing.map((file) => file.sha256)) : unknownBlob(first)
}
