import { z } from 'zod'
import { buildModes, deployStatuses, sourceKinds } from '../../core/deploy.ts'
import { notFound } from '../../core/errors.ts'
import { type DeployRow, findDeploy } from '../../infra/db/deploys.ts'
import type { Context } from '../context.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const Deploy = z
  .object({
    id: z.uuid(),
    site_id: z.uuid(),
    status: z.enum(deployStatuses),
    error: z.string().nullable().describe('Why it failed, with the last lines of the build.'),
    source_kind: z.enum(sourceKinds),
    build_mode: z
      .enum(buildModes)
      .nullable()
      .describe('build: commands ran; static: published as sent; copy: files were stored already.'),
    is_preview: z.boolean().describe('Built without publishing; activation clears it.'),
    artifacts_purged: z.boolean().describe('The files were deleted; the record stays.'),
    activate: z.boolean().describe('Whether it goes live by itself when it is ready.'),
    skipped_paths: z.array(z.string()).describe('Files that were not published.'),
    file_count: z.int().nullable(),
    total_bytes: z.int().nullable(),
    git: z.object({ commit: z.string(), ref: z.string(), message: z.string(), author: z.string() }).nullable(),
    preview_url: z.url().nullable(),
    created_at: time,
    started_at: time.nullable(),
    finished_at: time.nullable(),
    activated_at: time.nullable(),
    build_seconds: z.int().nullable(),
  })
  .meta({ id: 'Deploy' })

export function deployView(row: DeployRow): z.input<typeof Deploy> {
  return {
    id: row.id,
    site_id: row.site_id,
    status: row.status,
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
    preview_url: null,
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
  if (!deploy) throw notFound('there is no deploy with this id in the project; list_deploys shows those of a site')
  return deploy
}
