import type { z } from 'zod'
import type { ManifestEntry } from '../core/manifest.ts'
import { storeManifest } from '../infra/cas/manifests.ts'
import { readSiteRules } from '../infra/cas/site-rules.ts'
import type { CheckOptions, CheckResult } from '../services/checks/find-recommendations.ts'
import { acceptDeploy, type StoredFiles } from '../services/deploys/accept.ts'
import { type DeployRow, setRecommendations } from '../services/deploys/deploys.ts'
import type { SiteRow } from '../services/sites/sites.ts'
import type { PendingUpload } from '../services/storage/pending-upload.ts'
import type { Context } from './context.ts'
import { type Deploy, deployView } from './views/deploy.ts'

/** How long a response waits for recommendations; the workflow of the deploy checks the remaining files. */
const budgetMs = 150

type FileSet = Pick<StoredFiles, 'source_kind' | 'activate' | 'title' | 'files' | 'references'> & {
  readonly skipped_paths: string[]
}

/**
 * Accepts a deploy of stored files and keeps their manifest. When the site has checks enabled, the files are checked at the same time, and
 * the response has the recommendations.
 * @throws AppError as {@link acceptDeploy} does, never because of the content of files
 */
export async function acceptFiles(
  ctx: Context,
  site: SiteRow,
  set: FileSet,
  upload: PendingUpload,
): Promise<z.input<typeof Deploy>> {
  const { skipped_paths, ...request } = set
  const compiled = await readSiteRules(upload.objects, set.files)
  const manifest_sha256 = await storeManifest(upload.objects, set.files, compiled.rules)
  const total_bytes = set.files.reduce((sum, file) => sum + file.size, 0)
  const deploy = { ...request, copy: { manifest_sha256, file_count: set.files.length, total_bytes, skipped_paths } }
  if (!site.checks_enabled) return await deployView(ctx, await acceptDeploy(ctx, site, deploy, upload))
  const refusal = new AbortController()
  let result: CheckResult | undefined
  const checking = checkFiles(ctx, deploy.files, { objects: upload.objects, compiled, signal: refusal.signal }).then((ended) => {
    result = ended
    return ended
  })
  try {
    const foundSoFar = () => (result?.complete ? result.recommendations : undefined)
    const row = await acceptDeploy(ctx, site, { ...deploy, recommendations: foundSoFar }, upload)
    const { recommendations, complete } = await checking
    if (complete && row.recommendations === null) await keep(ctx, row, recommendations)
    return { ...(await deployView(ctx, { ...row, recommendations: null })), recommendations }
  } catch (error) {
    refusal.abort()
    throw error
  }
}

async function checkFiles(
  ctx: Context,
  files: readonly ManifestEntry[],
  options: Required<Pick<CheckOptions, 'objects' | 'compiled' | 'signal'>>,
): Promise<CheckResult> {
  try {
    return await ctx.siteChecks.findRecommendations(files, { payer: ctx.caller.project_id, budgetMs, ...options })
  } catch (error) {
    // the files of a refused deploy are gone
    if (!options.signal.aborted) ctx.log.error({ err: error }, 'site checks failed')
    return { recommendations: [], complete: false }
  }
}

/** Stores recommendations that were found after the deploy was accepted. */
async function keep(ctx: Context, { id }: DeployRow, recommendations: CheckResult['recommendations']): Promise<void> {
  try {
    await setRecommendations(ctx.db, id, recommendations)
  } catch (error) {
    ctx.log.error({ err: error, deploy_id: id }, 'recommendations were not stored')
  }
}
