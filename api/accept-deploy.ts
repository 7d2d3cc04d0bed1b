import { conflict } from '../core/errors.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import { addBlobsOfDeploy, addedBytes, findBlobSizes } from '../infra/db/blobs.ts'
import type { Tx } from '../infra/db/database.ts'
import { type DeployRow, insertDeploy, type NewDeploy } from '../infra/db/deploys.ts'
import { lockProject } from '../infra/db/projects.ts'
import type { SiteRow } from '../infra/db/sites.ts'
import { insertWorkflowStart } from '../infra/db/workflow-starts.ts'
import { deployStart } from '../workflows/contract.ts'
import type { Context } from './context.ts'
import { checkDeployGates } from './gates.ts'
import { unknownBlob } from './store-files.ts'

/** A deploy whose bytes are stored: an archive to build, or a manifest of stored files. */
export type StoredDeploy = Pick<NewDeploy, 'source_kind' | 'activate'> &
  (
    | { readonly source: NonNullable<NewDeploy['source']> }
    | {
        readonly copy: NonNullable<NewDeploy['copy']>
        readonly files: readonly ManifestEntry[]
        /** Files that name a blob of the project by its hash alone. */
        readonly references: readonly { readonly path: string; readonly sha256: string }[]
      }
  )

export const inTrash = () => conflict('the site is in the trash; restore it first')

/**
 * Accepts a deploy: gates, the row and the start of its workflow in one transaction. What it returns is durable.
 * @throws AppError as the gates say; `conflict` when the site is in the trash
 */
export async function acceptDeploy(ctx: Context, site: SiteRow, deploy: StoredDeploy): Promise<DeployRow> {
  const accepted = await ctx.db.transaction().execute(async (tx) => {
    const project = await lockProject(tx, site.project_id)
    const added = 'files' in deploy ? await addedBytes(tx, project.id, deploy.files) : deploy.source.size
    await checkDeployGates(tx, ctx, project, { addedBytes: added, activate: deploy.activate })
    const { source_kind, activate } = deploy
    const content = 'files' in deploy ? { copy: deploy.copy } : { source: deploy.source }
    const row = await insertDeploy(
      tx,
      { site_id: site.id, project_id: project.id, source_kind, activate, ...content },
      ctx.clock(),
    )
    if (!row) throw inTrash()
    if ('files' in deploy) {
      await requireBlobs(tx, project.id, deploy.references)
      await addBlobsOfDeploy(tx, project.id, deploy.files)
    }
    const { id, ...facts } = row
    await insertWorkflowStart(tx, deployStart({ ...facts, deploy_id: id, site_name: site.name }))
    return row
  })
  ctx.relay.wake()
  ctx.log.info({ deploy_id: accepted.id, site_id: site.id, source_kind: accepted.source_kind }, 'deploy accepted')
  return accepted
}

/** A purge may have taken a referenced blob since it was looked up; the project's lock keeps it from now on. */
async function requireBlobs(tx: Tx, projectId: string, references: readonly { path: string; sha256: string }[]): Promise<void> {
  const held = await findBlobSizes(
    tx,
    projectId,
    references.map((file) => file.sha256),
  )
  const missing = references.find((file) => !held.has(file.sha256))
  if (missing) throw unknownBlob(missing)
}
