import { z } from 'zod'
import { maxWebhooksPerProject } from '../../core/webhooks.ts'
import { suspended } from '../../services/projects/projects.ts'
import { listDeliveries, redeliver } from '../../services/webhooks/deliveries.ts'
import { createWebhook, deleteWebhook, listWebhooks, updateWebhook } from '../../services/webhooks/webhooks.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { Ok, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import {
  Delivery,
  delivery_id,
  deliveryOfCaller,
  deliveryView,
  events,
  readUrl,
  url,
  Webhook,
  webhook_id,
  webhookOfCaller,
  webhookView,
} from '../views/webhook.ts'

const tag = 'Webhooks'

export const list_webhooks = operation({
  id: 'list_webhooks',
  title: 'List webhooks',
  summary: 'Lists the webhooks of the project, oldest first, without their secrets.',
  tag,
  rest: 'GET /api/v1/webhooks',
  tool: { readOnly: true },
  scope: 'full',
  input: z.object({}),
  output: z.array(Webhook).max(maxWebhooksPerProject),
  handler: async (ctx) => (await listWebhooks(ctx.db, ctx.caller.project_id)).map(webhookView),
})

export const create_webhook = operation({
  id: 'create_webhook',
  title: 'Create a webhook',
  summary:
    'Creates a webhook: the platform posts the events to its address, signed as Standard Webhooks say. The secret is shown only once.',
  tag,
  rest: 'POST /api/v1/webhooks',
  tool: {},
  scope: 'full',
  input: z.object({ url, events, site_id: site_id.optional().describe('Only events of this site; otherwise of all sites.') }),
  example: { url: 'https://hooks.example.com/plinth', events: ['deploy.succeeded', 'deploy.failed'] },
  load: async (ctx, { site_id }) => site_id && (await siteOfCaller(ctx, { site_id })),
  whenSuspended: 'refuse',
  output: Webhook.extend({
    secret: z.string().describe('Proves deliveries to their receiver: whsec_ and the key in base64.'),
  }).meta({ id: 'NewWebhook' }),
  errors: [400, 402, 404, 409],
  handler: async (ctx, input) => {
    const wanted = { url: readUrl(ctx.config, input.url), events: input.events, site_id: input.site_id ?? null }
    const { secret, ...row } = await createWebhook(ctx, ctx.caller.project_id, wanted)
    return { ...webhookView(row), secret }
  },
})

export const update_webhook = operation({
  id: 'update_webhook',
  title: 'Update a webhook',
  summary:
    'Changes the given members of a webhook. Disabling it ends its waiting deliveries; events that happen while it is disabled are not delivered later.',
  tag,
  rest: 'PATCH /api/v1/webhooks/{webhook_id}',
  tool: { idempotent: true },
  scope: 'full',
  input: z.object({ webhook_id, url: url.optional(), events: events.optional(), enabled: z.boolean().optional() }),
  example: { enabled: true },
  load: webhookOfCaller,
  output: Webhook,
  errors: [400, 402],
  handler: async (ctx, input, webhook) => {
    if (input.enabled && ctx.caller.suspended) throw suspended(ctx.caller)
    const change = { ...input, url: input.url === undefined ? undefined : readUrl(ctx.config, input.url) }
    return webhookView(await updateWebhook(ctx, webhook, change))
  },
})

export const delete_webhook = operation({
  id: 'delete_webhook',
  title: 'Delete a webhook',
  summary: 'Deletes a webhook with its deliveries: it is not called any more.',
  tag,
  rest: 'DELETE /api/v1/webhooks/{webhook_id}',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ webhook_id }),
  load: webhookOfCaller,
  output: Ok,
  handler: async (ctx, _input, webhook) => {
    await deleteWebhook(ctx, webhook)
    return { ok: true as const }
  },
})

export const list_webhook_deliveries = operation({
  id: 'list_webhook_deliveries',
  title: 'List deliveries',
  summary: 'Lists the deliveries of a webhook in the last 30 days, newest first, with the status and duration of each try.',
  tag,
  rest: 'GET /api/v1/webhooks/{webhook_id}/deliveries',
  tool: { readOnly: true },
  scope: 'full',
  input: z.object({
    webhook_id,
    limit: z.int().min(1).max(200).default(50),
    before: z.uuid().optional().describe('Id of the last delivery of the previous page.'),
  }),
  load: webhookOfCaller,
  output: z.array(Delivery),
  lists: [{ key: 'id', continuedBy: 'before' }],
  handler: async (ctx, { webhook_id, limit, before }) => {
    const { rows, next } = await listDeliveries(ctx.db, webhook_id, { limit, before })
    return Listing.ofRows(rows.map(deliveryView), next)
  },
})

export const redeliver_webhook = operation({
  id: 'redeliver_webhook',
  title: 'Repeat a delivery',
  summary: 'Delivers an event to its webhook once more, as a new delivery with the same message id.',
  tag,
  rest: 'POST /api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver',
  tool: {},
  scope: 'full',
  input: z.object({ webhook_id, delivery_id }),
  load: deliveryOfCaller,
  whenSuspended: 'refuse',
  output: Delivery,
  errors: [402, 409, 429],
  handler: async (ctx, _input, delivery) => deliveryView(await redeliver(ctx, delivery)),
})
