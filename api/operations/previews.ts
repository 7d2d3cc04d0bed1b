import { z } from 'zod'
import { previewUrl } from '../../infra/config.ts'
import { issuePreviewLink, revokePreviewLink } from '../../services/deploys/preview-links.ts'
import { operation } from '../operation.ts'
import { deployOfCaller } from '../views/deploy.ts'
import { deploy_id, isoTime, Ok, time } from '../views/fields.ts'

const tag = 'Deploys'

export const get_preview_url = operation({
  id: 'get_preview_url',
  title: 'Get a preview link',
  summary:
    'Gets a secret link to a deploy that is not live, for people who should see it before it is published. Repeated calls return the same link.',
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
        .describe('Opens without a key or password until the link is revoked, the deploy is published, or 30 days have passed.'),
      token: z.string().describe('The secret part of the link.'),
      created_at: time.describe('When the link was issued.'),
    })
    .meta({ id: 'PreviewLink' }),
  errors: [402, 409],
  handler: async (ctx, { deploy_id }) => {
    const { token, issued_at } = await issuePreviewLink(ctx, deploy_id)
    return { deploy_id, url: previewUrl(ctx.config, token), token, created_at: isoTime(issued_at) }
  },
})

export const revoke_preview_url = operation({
  id: 'revoke_preview_url',
  title: 'Revoke a preview link',
  summary: 'Revokes the preview link of a deploy, which stays unpublished. A link that is issued later is a different one.',
  tag,
  rest: 'DELETE /api/v1/deploys/{deploy_id}/preview',
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  output: Ok,
  handler: async (ctx, _input, deploy) => {
    await revokePreviewLink(ctx, deploy)
    return { ok: true as const }
  },
})
