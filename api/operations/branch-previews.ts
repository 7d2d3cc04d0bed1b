import { z } from 'zod'
import { approvePreview, closePreview } from '../../services/git/branch-previews.ts'
import { readBranchPreviews } from '../../services/previews/branch-previews.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { BranchPreview, branchPreviewOfCaller, branchPreviewView, preview_id } from '../views/branch-preview.ts'
import { Ok, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Git'

export const list_git_previews = operation({
  id: 'list_git_previews',
  title: 'List branch previews',
  summary: 'Lists the open previews of branches and pull requests, each with its link, the latest push first.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/git/previews',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.array(BranchPreview),
  lists: [{ key: 'id' }],
  handler: async (ctx, { site_id }) =>
    Listing.of(readBranchPreviews(ctx.db, ctx.caller.project_id, site_id), (rows) =>
      rows.map((row) => branchPreviewView(ctx, row)),
    ),
})

export const approve_git_preview = operation({
  id: 'approve_git_preview',
  title: "Approve a fork's pull request",
  summary: 'Allows builds of a pull request from a fork, now and after each further push. Repeating it builds only new commits.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/previews/{preview_id}/approval',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, preview_id }),
  load: branchPreviewOfCaller,
  requires: 'previews',
  whenSuspended: 'refuse',
  output: BranchPreview,
  errors: [402, 409, 429],
  handler: async (ctx, ids, preview) => {
    await approvePreview(ctx, await siteOfCaller(ctx, ids), preview)
    return branchPreviewView(ctx, await branchPreviewOfCaller(ctx, ids))
  },
})

export const delete_git_preview = operation({
  id: 'delete_git_preview',
  title: 'Delete a branch preview',
  summary: 'Ends the preview of a branch or pull request, and its link. A later push opens the preview again, with another link.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git/previews/{preview_id}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id, preview_id }),
  load: branchPreviewOfCaller,
  output: Ok,
  handler: async (ctx, _input, preview) => {
    await closePreview(ctx, preview)
    return { ok: true as const }
  },
})
