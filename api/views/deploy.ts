import { z } from 'zod'
import { buildModes, deployAllows, deployStatuses, sourceKinds } from '../../core/deploy.ts'
import { waitingFor } from '../../core/deploy-waits.ts'
import { notFound } from '../../core/errors.ts'
import { oneLine } from '../../core/inline-code.ts'
import { maxManifestEntries, maxTitleLength } from '../../core/limits.ts'
import { permanentUrl, previewUrl } from '../../infra/config.ts'
import { issuedToken } from '../../infra/crypto/preview-tokens.ts'
import { listWaits } from '../../services/builds/permits.ts'
import { type DeployRow, findDeploy } from '../../services/deploys/deploys.ts'
import { listLiveLinks } from '../../services/previews/links.ts'
import { listPermanentLinks } from '../../services/previews/permanent-links.ts'
import { findSite } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'
import { recommendations } from './recommendation.ts'

const foreign = writtenBy('sources', z.string())

export const Deploy = z
  .object({
    id: z.uuid(),
    site_id: z.uuid(),
    number: z.int().describe('Counts the deploys of the site.'),
    title: writtenBy(
      'sources',
      z.string().nullable().describe('The title that was sent with the deploy, or the first line of its commit message.'),
    ),
    status: z.enum(deployStatuses).describe('active: the deploy is live, and every running edge serves it.'),
    waiting_for: z
      .string()
      .nullable()
      .describe('What a queued deploy waits for, such as a build slot or another deploy of its site; null for any other status.'),
    error: writtenBy('sources', z.string().nullable().describe('Why the deploy failed, with the last lines of the build.')),
    source_kind: z.enum(sourceKinds),
    build_mode: z
      .enum(buildModes)
      .nullable()
      .describe('build: commands ran; static: published as sent; copy: the files were already stored.'),
    is_preview: z.boolean().describe('Whether the deploy was built without publishing; activation clears this.'),
    artifacts_purged: z.boolean().describe('Whether the files were deleted; the record stays.'),
    activate: z.boolean().describe('Whether the deploy goes live by itself when it is ready.'),
    skipped_paths: z.array(writtenBy('sources', z.string())).max(maxManifestEntries).describe('Files that were not published.'),
    file_count: z.int().nullable(),
    total_bytes: z.int().nullable(),
    git: z.object({ commit: z.string(), ref: foreign, message: foreign, author: foreign }).nullable(),
    preview_url: z
      .url()
      .nullable()
      .describe('The preview link that shows the deploy, while there is one: its own, or that of its branch.'),
    permanent_url: z
      .url()
      .nullable()
      .describe('The address of this deploy alone, as long as its files are kept; null while its site has no permanent links.'),
    created_at: time,
    started_at: time.nullable(),
    finished_at: time.nullable(),
    activated_at: time.nullable(),
    build_seconds: z.int().nullable(),
    recommendations: recommendations.describe(
      'The recommendations for the files; absent when checks are off, have not ended, or found nothing.',
    ),
  })
  .meta({ id: 'Deploy' })

type Shown = Pick<Context, 'config' | 'db' | 'previewTokens' | 'permanentTokens' | 'freshness' | 'leaving'>

export async function deployView(ctx: Shown, row: DeployRow): Promise<z.input<typeof Deploy>> {
  const [view = viewOf(row, {})] = await deployViews(ctx, [row])
  if (!row.recommendations?.length) return view
  const site = await findSite(ctx.db, row.project_id, row.site_id)
  return site?.checks_enabled ? { ...view, recommendations: row.recommendations } : view
}

/**
 * Leaves out the recommendations, which would make up most of a list of deploys. The view of a deploy that has just gone live waits until every
 * edge serves it.
 */
export async function deployViews(ctx: Shown, rows: readonly DeployRow[]): Promise<z.input<typeof Deploy>[]> {
  const previews = await previewUrls(ctx, rows)
  const permanent = await permanentUrls(ctx, rows)
  const waits = await waitsOf(ctx, rows)
  await ctx.freshness.untilServed(rows, ctx.leaving)
  return rows.map((row) =>
    viewOf(row, { preview_url: previews.get(row.id), permanent_url: permanent.get(row.id), waiting_for: waits.get(row.id) }),
  )
}

/** By the deploy's id. A link whose token came from another secret key does not open any more. */
async function previewUrls({ config, db, previewTokens }: Shown, rows: readonly DeployRow[]): Promise<Map<string, string>> {
  const showable = rows.filter((row) => deployAllows('preview', row.status) && !row.artifacts_purged)
  const links = await listLiveLinks(
    db,
    showable.map((row) => row.id),
  )
  const urls = links.flatMap((link) => {
    const token = issuedToken(previewTokens, link)
    return token === undefined ? [] : [[link.deploy_id, previewUrl(config, token)] as const]
  })
  // of two links of a deploy the first one wins
  return new Map(urls.toReversed())
}

/** By the deploy's id. */
async function permanentUrls({ config, db, permanentTokens }: Shown, rows: readonly DeployRow[]): Promise<Map<string, string>> {
  const sites = [...new Set(rows.map((row) => row.site_id))]
  const links = await listPermanentLinks(
    db,
    sites,
    rows.map((row) => row.id),
  )
  return new Map(
    links.map(({ deploy_id, generation }) => [deploy_id, permanentUrl(config, permanentTokens(deploy_id, generation))]),
  )
}

/** What each queued deploy waits for, by its id. */
async function waitsOf({ db }: Shown, rows: readonly DeployRow[]): Promise<Map<string, string>> {
  const queued = rows.filter((row) => row.status === 'queued')
  const [first] = queued
  if (!first) return new Map()
  const ids = queued.map((row) => row.id)
  const builds = await listWaits(db, first.project_id, ids)
  return new Map(ids.map((id) => [id, waitingFor(builds.get(id))]))
}

const maxTitle = new RegExp(`^.{0,${maxTitleLength}}`, 'u')
const titleOf = ({ title, git }: DeployRow) =>
  title ?? (maxTitle.exec(oneLine(git?.message.split('\n', 1)[0] ?? ''))?.[0] || null)

type Known = { readonly [Member in 'preview_url' | 'permanent_url' | 'waiting_for']?: string | undefined }

function viewOf(row: DeployRow, { preview_url, permanent_url, waiting_for }: Known): z.input<typeof Deploy> {
  return {
    id: row.id,
    site_id: row.site_id,
    number: row.seq,
    title: titleOf(row),
    status: row.status,
    waiting_for: waiting_for ?? null,
    error: row.error,
    source_kind: row.source_kind,
    build_mode: row.build_mode,
    is_preview: row.is_preview,
    artifacts_purged: row.artifacts_purged,
    activate: row.activate,
    skipped_paths: row.skipped_paths,
    file_count: row.file_count,
    total_bytes: row.total_bytes,
    git: row.git,
    preview_url: preview_url ?? null,
    permanent_url: permanent_url ?? null,
    created_at: isoTime(row.created_at),
    started_at: isoTimeOrNull(row.started_at),
    finished_at: isoTimeOrNull(row.finished_at),
    activated_at: isoTimeOrNull(row.activated_at),
    build_seconds: row.build_seconds,
  }
}

/** @throws AppError `not_found` */
export async function deployOfCaller(ctx: Context, { deploy_id }: { deploy_id: string }): Promise<DeployRow> {
  const deploy = await findDeploy(ctx.db, ctx.caller.project_id, deploy_id)
  if (!deploy) throw noSuchDeploy()
  return deploy
}

export const noSuchDeploy = () => notFound('there is no deploy with this id in the project; list_deploys shows those of a site')
