import { minBackgroundBytes } from '../../core/encodings.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import type { Db } from '../../infra/db/database.ts'
import { compressionSignal } from '../../workflows/contract/compression.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { type CompressionOptions, compressBlobs } from '../storage/compress-blobs.ts'
import { type Tx, transact } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'

interface LiveDeploy {
  readonly id: string
  readonly project_id: string
  readonly total_bytes: number | null
}

/** Has the files of a deploy compressed in the background, in the transaction in which it goes live. */
export async function queueCompression(tx: Tx, { id, project_id, total_bytes }: LiveDeploy, now: Date): Promise<void> {
  if (total_bytes !== null && total_bytes < minBackgroundBytes) return
  await tx.updateTable('deploys').set({ compression_due_at: now }).where('id', '=', id).execute()
  await signalWorkflows(tx, [compressionSignal({ project_id })])
}

/** Live deploys whose files are to be compressed. Those that were superseded before are not worth the work. */
const dueDeploys = (db: Db) =>
  db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.active_deploy_id', 'deploys.id')
    .where('deploys.compression_due_at', 'is not', null)
    .where('deploys.manifest_sha256', 'is not', null)
    .where('deploys.artifacts_purged', '=', false)

/** Lists the projects with deploys that have waited since before the instant, by id. */
export function listProjectsToCompress(
  db: Db,
  before: Date,
  { limit, afterId }: { readonly limit: number; readonly afterId?: string | undefined },
): Promise<{ project_id: string }[]> {
  return dueDeploys(db)
    .select('deploys.project_id')
    .where('deploys.compression_due_at', '<', before)
    .$if(afterId !== undefined, (query) => query.where('deploys.project_id', '>', afterId ?? ''))
    .groupBy('deploys.project_id')
    .orderBy('deploys.project_id')
    .limit(limit)
    .execute()
}

/**
 * Compresses files of the live deploy of the project that has waited longest. Once all of them are compressed, edges may use the variants; not
 * before, because objects are shared: a project would learn from variants that are there too early that another one stores the same file.
 */
export async function compressDueDeploy(services: Services, projectId: string, options: CompressionOptions) {
  const { db, log } = services
  const [deploy, next] = await dueDeploys(db)
    .select(['deploys.id', 'deploys.site_id', 'deploys.manifest_sha256', 'deploys.compression_due_at'])
    .where('deploys.project_id', '=', projectId)
    .$narrowType<{ manifest_sha256: string; compression_due_at: Date }>()
    .orderBy('deploys.compression_due_at')
    .limit(2)
    .execute()
  if (!deploy) return { more: false, files: 0, bytes: 0, compressed_bytes: 0 }
  const files = await filesOf(services, deploy.manifest_sha256)
  const { done, ...compressed } = await compressBlobs(services, projectId, files, options)
  if (!done) return { ...compressed, more: true }
  await transact(services, async (tx) => {
    await lockSiteOf(tx, 'deploys', deploy.id)
    // none when it has gone live once more in the meantime: its files may have been repaired, and their variants are gone
    const { numUpdatedRows } = await tx
      .updateTable('deploys')
      .set({ compression_due_at: null })
      .where('id', '=', deploy.id)
      .where('compression_due_at', '=', deploy.compression_due_at)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    await bumpRoutes(tx, { site_id: deploy.site_id })
    tx.afterCommit(() => log.info({ deploy_id: deploy.id, ...compressed }, 'deploy compressed'))
  })
  return { ...compressed, more: next !== undefined }
}

/** None of a manifest that is missing: nothing can be served from it, and other deploys of the project are waiting. */
async function filesOf({ cas }: Services, manifestSha256: string) {
  return (await cas.stat(manifestSha256)) ? (await readManifest(cas, manifestSha256)).files : []
}
