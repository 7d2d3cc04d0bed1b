import { z } from 'zod'
import { approvePreview, closePreview } from '../../services/git/previews.ts'
import { listGitPreviews } from '../../services/previews/git-previews.ts'
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
    await approvePreview(ctx, await siteOfCaller(ctx, ids), preview)
    return gitPreviewView(ctx, await gitPreviewOfCaller(ctx, ids))
  },
})

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
  handler: async (ctx, _input, preview) => {
    await closePreview(ctx, preview)
    return { ok: true as const }
  },
})
