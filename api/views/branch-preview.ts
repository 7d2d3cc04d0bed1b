import { z } from 'zod'
import { notFound } from '../../core/errors.ts'
import { previewLinkPeriodMs } from '../../core/limits.ts'
import { previewUrl } from '../../infra/config.ts'
import { issuedToken } from '../../infra/crypto/preview-tokens.ts'
import { findListedBranchPreview, type ListedBranchPreview } from '../../services/previews/branch-previews.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'
import { isoTime, time } from './fields.ts'

const states = ['waiting_for_approval', 'building', 'ready', 'failed', 'empty', 'closed'] as const
type State = (typeof states)[number]

export const preview_id = z.uuid().describe('Id of the preview.')

export const BranchPreview = z
  .object({
    id: z.uuid(),
    ref: writtenBy(
      'sources',
      z
        .string()
        .describe('The name of the preview within the site: the branch, or pull:<number> for a pull request from a fork.'),
    ),
    branch: writtenBy('sources', z.string().describe('The branch; for a fork, the branch there.')),
    pull_request: z.int().nullable(),
    from_fork: z.boolean(),
    approved: z.boolean().describe('Whether its pushes are built; pull requests from forks wait for approve_git_preview.'),
    url: z.url().nullable().describe('The preview link, which opens without a key and shows the newest ready deploy.'),
    deploy_id: z.uuid().nullable().describe('The deploy that the link shows.'),
    newest_deploy_id: z.uuid().nullable().describe('The deploy that `state` refers to; its log shows why it failed.'),
    head_commit: z.string().nullable().describe('The latest commit that the forge has reported; some forges abbreviate it.'),
    state: z.enum(states).describe('empty: the preview shows nothing, and the next push creates another link.'),
    updated_at: time.describe('The latest push, or the approval.'),
    expires_at: time
      .nullable()
      .describe('When the link ends unless there is another push; null while the preview waits for approval.'),
  })
  .meta({ id: 'BranchPreview' })

export function branchPreviewView(
  { config, previewTokens }: Pick<Context, 'config' | 'previewTokens'>,
  row: ListedBranchPreview,
): z.input<typeof BranchPreview> {
  const token = issuedToken(previewTokens, row)
  const url = token === undefined ? null : previewUrl(config, token)
  return {
    id: row.id,
    ref: row.ref,
    branch: row.branch,
    pull_request: row.pull_request,
    from_fork: row.from_fork,
    approved: row.approved,
    url,
    deploy_id: row.deploy_id,
    newest_deploy_id: row.newest_deploy_id,
    head_commit: row.head_commit,
    state: stateOf(row, url !== null),
    updated_at: isoTime(row.updated_at),
    expires_at: row.approved ? isoTime(new Date(row.updated_at.getTime() + previewLinkPeriodMs)) : null,
  }
}

function stateOf(row: ListedBranchPreview, opens: boolean): State {
  const { newest_status: status } = row
  if (row.closed_at) return 'closed'
  if (!row.approved) return 'waiting_for_approval'
  if (status === 'failed') return 'failed'
  if (status === 'queued' || status === 'building') return 'building'
  // it is ready, but the link does not show it yet
  if (status && !row.newest_purged && row.newest_deploy_id !== row.deploy_id) return 'building'
  return opens ? 'ready' : 'empty'
}

/** @throws AppError `not_found` */
export async function branchPreviewOfCaller(
  ctx: Context,
  ids: { readonly site_id: string; readonly preview_id: string },
): Promise<ListedBranchPreview> {
  const preview = await findListedBranchPreview(ctx.db, ctx.caller.project_id, ids)
  if (!preview) throw notFound('the site has no preview with this id; list_git_previews shows its open ones')
  return preview
}
