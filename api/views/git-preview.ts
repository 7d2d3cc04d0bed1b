import { z } from 'zod'
import { notFound } from '../../core/errors.ts'
import { previewLinkPeriodMs } from '../../core/limits.ts'
import { previewUrl } from '../../infra/config.ts'
import { issuedToken } from '../../infra/crypto/preview-tokens.ts'
import { findListedGitPreview, type ListedGitPreview } from '../../services/previews/git-previews.ts'
import type { Context } from '../context.ts'
import { isoTime, time } from './fields.ts'

const states = ['waiting_for_approval', 'building', 'ready', 'failed', 'empty', 'closed'] as const
type State = (typeof states)[number]

export const preview_id = z.uuid().describe('Id of the preview.')

export const GitPreview = z
  .object({
    id: z.uuid(),
    ref: z.string().describe('Names it within the site: the branch, or pull:<number> for a pull request of a fork.'),
    branch: z.string().describe('The branch that is shown; of a fork, the one there.'),
    pull_request: z.int().nullable(),
    from_fork: z.boolean(),
    approved: z.boolean().describe('Whether pushes to it are built; pull requests of forks wait for approve_git_preview.'),
    url: z.url().nullable().describe('Opens without a key, and shows the newest deploy that is ready.'),
    deploy_id: z.uuid().nullable().describe('The deploy that the link shows.'),
    newest_deploy_id: z.uuid().nullable().describe('The deploy that `state` speaks of; its log tells why it failed.'),
    head_commit: z.string().nullable().describe('The latest that the forge has told of; some forges abbreviate it.'),
    state: z.enum(states).describe('empty: it shows nothing, and the next push makes another link.'),
    updated_at: time.describe('The latest push, or the approval.'),
    expires_at: time.nullable().describe('When the link ends without another push; null while it waits for its approval.'),
  })
  .meta({ id: 'GitPreview' })

export function gitPreviewView(
  { config, previewTokens }: Pick<Context, 'config' | 'previewTokens'>,
  row: ListedGitPreview,
): z.input<typeof GitPreview> {
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

function stateOf(row: ListedGitPreview, opens: boolean): State {
  const { newest_status: status } = row
  if (row.closed_at) return 'closed'
  if (!row.approved) return 'waiting_for_approval'
  if (status === 'failed') return 'failed'
  if (status === 'queued' || status === 'building') return 'building'
  // ready, and the link is about to show it
  if (status && !row.newest_purged && row.newest_deploy_id !== row.deploy_id) return 'building'
  return opens ? 'ready' : 'empty'
}

/** @throws AppError `not_found` */
export async function gitPreviewOfCaller(
  ctx: Context,
  ids: { readonly site_id: string; readonly preview_id: string },
): Promise<ListedGitPreview> {
  const preview = await findListedGitPreview(ctx.db, ctx.caller.project_id, ids)
  if (!preview) throw notFound('the site has no preview with this id; list_git_previews shows its open ones')
  return preview
}
