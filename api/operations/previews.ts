import { z } from 'zod'
import { deployAllows } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import { previewUrl } from '../../infra/config.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { lockSiteOfDeploy } from '../../services/deploys/deploys.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { endPreview, issuePreview } from '../../services/previews/previews.ts'
import { inTrash } from '../accept-deploy.ts'
import { operation } from '../operation.ts'
import { deployOfCaller } from '../views/deploy.ts'
import { deploy_id, isoTime, Ok, time } from '../views/fields.ts'

const tag = 'Deploys'

export const get_preview_url = operation({
  id: 'get_preview_url',
  title: 'Get a preview link',
  summary:
    'A secret link to a deploy that is not live, for whoever should see it before it is published; the same link on repeat.',
  tag,
  rest: 'POST /api/v1/deploys/{deploy_id}/preview',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  requires: 'previews',
  whenSuspended: 'refuse',
  output: z
    .object({
      deploy_id: z.uuid(),
      url: z
        .url()
        .describe('Opens without a key or a password, until it is revoked, the deploy is published, or 30 days have passed.'),
      token: z.string().describe('The secret part of the address.'),
      created_at: time.describe('When the link was issued.'),
    })
    .meta({ id: 'PreviewLink' }),
  errors: [402, 409],
  handler: async (ctx, { deploy_id }) => {
    const preview = await ctx.db.transaction().execute(async (tx) => {
      const found = await lockSiteOfDeploy(tx, deploy_id)
      if (!found || found.trashed) throw inTrash()
      const { deploy } = found
      if (deploy.artifacts_purged) throw conflict('the files of this deploy were deleted; deploy again')
      if (!deployAllows('preview', deploy.status) || !deploy.file_count) throw notShowable(deploy.status)
      return await issuePreview(
        tx,
        deploy,
        (generation) => hashPreviewToken(ctx.previewTokens(deploy_id, generation)),
        ctx.clock(),
      )
    })
    const token = ctx.previewTokens(deploy_id, preview.generation)
    ctx.log.info({ deploy_id }, 'preview link issued')
    return { deploy_id, url: previewUrl(ctx.config, token), token, created_at: isoTime(preview.issued_at) }
  },
})

const notShowable = (status: string) =>
  conflict(
    status === 'active'
      ? 'this deploy is live: its site shows it'
      : `a deploy that is ${status} has no files to show; only ready and superseded ones have`,
  )

export const revoke_preview_url = operation({
  id: 'revoke_preview_url',
  title: 'Revoke a preview link',
  summary: 'Ends the preview link of a deploy; the deploy stays unpublished. A link that is issued later is another one.',
  tag,
  rest: 'DELETE /api/v1/deploys/{deploy_id}/preview',
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  output: Ok,
  handler: async (ctx, { deploy_id }, { site_id }) => {
    const revoked = await ctx.db.transaction().execute(async (tx) => {
      await lockSiteOfDeploy(tx, deploy_id)
      const ended = await endPreview(tx, deploy_id)
      if (ended) await bumpRoutes(tx, { site_id })
      return ended
    })
    if (revoked) ctx.log.info({ deploy_id, site_id }, 'preview link revoked')
    return { ok: true as const }
  },
})
