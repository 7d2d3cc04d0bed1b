import { z } from 'zod'
import { conflict } from '../../core/errors.ts'
import { isSameCommit } from '../../core/git-decision.ts'
import {
  approveGitPreview,
  closeGitPreview,
  type ListedGitPreview,
  listGitPreviews,
} from '../../services/previews/git-previews.ts'
import { lockProject } from '../../services/projects/projects.ts'
import { lockSite } from '../../services/sites/sites.ts'
import { queueReports } from '../../workflows/reports.ts'
import { inTrash } from '../accept-deploy.ts'
import { acceptGitDeploy } from '../accept-git-deploy.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { Ok, site_id } from '../views/fields.ts'
import { GitPreview, gitPreviewOfCaller, gitPreviewView, preview_id } from '../views/git-preview.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Git'

export const list_git_previews = operation({
  id: 'list_git_previews',
  title: 'List previews of branches',
  summary: 'The open previews of branches and pull requests, each with its one link; the one that was pushed to last first.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/git/previews',
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.array(GitPreview),
  handler: async (ctx, { site_id }) => {
    const previews = await listGitPreviews(ctx.db, ctx.caller.project_id, site_id)
    return previews.map((preview) => gitPreviewView(ctx, preview))
  },
})

export const approve_git_preview = operation({
  id: 'approve_git_preview',
  title: "Approve a fork's pull request",
  summary: 'Lets the pull request of a fork be built, now and with each further push. Repeating it builds only what is new.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/previews/{preview_id}/approval',
  scope: 'editor',
  input: z.object({ site_id, preview_id }),
  load: gitPreviewOfCaller,
  requires: 'previews',
  whenSuspended: 'refuse',
  output: GitPreview,
  errors: [402, 409, 429],
  handler: async (ctx, ids, preview) => {
    if (!isHeadBuilt(preview)) await approve(ctx, ids.site_id, preview)
    return gitPreviewView(ctx, await gitPreviewOfCaller(ctx, ids))
  },
})

const isHeadBuilt = ({ approved, closed_at, head_commit, newest_deploy_id, newest_commit }: ListedGitPreview) =>
  approved &&
  !closed_at &&
  newest_deploy_id !== null &&
  (head_commit === null || isSameCommit(head_commit, newest_commit ?? undefined))

async function approve(ctx: Context, siteId: string, { id, ref, head_commit }: ListedGitPreview): Promise<void> {
  const site = await siteOfCaller(ctx, { site_id: siteId })
  if (site.deletion_scheduled_at) throw inTrash()
  const git = head_commit === null ? null : { commit: head_commit, ref, message: '', author: '' }
  await acceptGitDeploy(ctx, site, {
    git,
    within: async (tx) => {
      if (!(await approveGitPreview(tx, id, ctx.clock())))
        throw conflict('this preview is closed; it opens again with the next push')
      await queueReports(tx, siteId)
      return { id, ref }
    },
  })
  ctx.log.info({ preview_id: id, site_id: siteId, ref }, 'preview of a fork approved')
}

export const delete_git_preview = operation({
  id: 'delete_git_preview',
  title: 'Delete the preview of a branch',
  summary: 'Ends the link of a branch or pull request. A later push opens the preview anew, with another link.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git/previews/{preview_id}',
  scope: 'editor',
  input: z.object({ site_id, preview_id }),
  load: gitPreviewOfCaller,
  output: Ok,
  handler: async (ctx, { site_id, preview_id }, { ref, project_id }) => {
    const closed = await ctx.db.transaction().execute(async (tx) => {
      await lockProject(tx, project_id)
      await lockSite(tx, project_id, site_id)
      await queueReports(tx, site_id)
      return await closeGitPreview(tx, { site_id, ref }, ctx.clock())
    })
    ctx.relay.wake()
    if (closed) ctx.log.info({ preview_id, site_id, ref }, 'preview of a branch closed')
    return { ok: true as const }
  },
})
