import { isIP } from 'node:net'
import { z } from 'zod'
import { invalid } from '../../core/errors.ts'
import { judgeWebhookUrl, maxTries, maxWebhookUrlLength, messageId, webhookEvents } from '../../core/webhooks.ts'
import type { Config } from '../../infra/config.ts'
import { isPublicAddress } from '../../infra/net/public-address.ts'
import { type DeliveryRow, findDelivery, noSuchDelivery } from '../../services/webhooks/deliveries.ts'
import { findWebhook, noSuchWebhook, type WebhookRow } from '../../services/webhooks/webhooks.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const webhook_id = z.uuid().describe('Id of the webhook.')
export const delivery_id = z.uuid().describe('Id of the delivery.')

// an invalid one is a 400, not a 422
export const url = z
  .string()
  .meta({ minLength: 1, maxLength: maxWebhookUrlLength, pattern: '^https?://[^\\s/@#\\\\]+[^\\s#\\\\]*$' })
  .describe('A public https address on port 443.')

export const events = z.array(z.enum(webhookEvents)).min(1).max(webhookEvents.length).describe('The events it is called for.')

export const Webhook = z
  .object({
    id: z.uuid(),
    url: z.string(),
    events: z.array(z.enum(webhookEvents)).max(webhookEvents.length),
    site_id: z.uuid().nullable().describe('The site whose events it is called for; null for all sites of the project.'),
    enabled: z.boolean(),
    disabled_reason: z.string().nullable().describe('Why the platform has disabled it.'),
    failing_since: time.nullable().describe('The first failed try since the latest success; after 24 hours it is disabled.'),
    overflowed_at: time.nullable().describe('When events were last not delivered, because too many deliveries were waiting.'),
    created_at: time,
  })
  .meta({ id: 'Webhook' })

export const webhookView = (row: WebhookRow): z.input<typeof Webhook> => ({
  id: row.id,
  url: row.url,
  events: row.events,
  site_id: row.site_id,
  enabled: row.enabled,
  disabled_reason: row.disabled_reason,
  failing_since: isoTimeOrNull(row.failing_since),
  overflowed_at: isoTimeOrNull(row.overflowed_at),
  created_at: isoTime(row.created_at),
})

export const Delivery = z
  .object({
    id: z.uuid(),
    message_id: z.string().describe('The header webhook-id; the same for every delivery of the event.'),
    type: z.enum(webhookEvents),
    state: z.enum(['waiting', 'delivered', 'failed']),
    tries: z
      .array(
        z.object({
          at: time,
          status: z.int().nullable().describe('The HTTP status; null without a response.'),
          duration_ms: z.int(),
          error: writtenBy('servers', z.string().nullable().describe('Null for a success.')),
        }),
      )
      .max(maxTries),
    next_try_at: time.nullable().describe('When the next try is due at the earliest; null when there is none.'),
    created_at: time,
    ended_at: time.nullable(),
  })
  .meta({ id: 'Delivery' })

export const deliveryView = (row: DeliveryRow): z.input<typeof Delivery> => ({
  id: row.id,
  message_id: messageId(row.event_id),
  type: row.type,
  state: row.outcome ?? 'waiting',
  tries: [...row.tries],
  next_try_at: isoTimeOrNull(row.next_look_at),
  created_at: isoTime(row.created_at),
  ended_at: isoTimeOrNull(row.ended_at),
})

/** @throws AppError `not_found` */
export async function webhookOfCaller(ctx: Context, { webhook_id }: { readonly webhook_id: string }): Promise<WebhookRow> {
  const webhook = await findWebhook(ctx.db, ctx.caller.project_id, webhook_id)
  if (!webhook) throw noSuchWebhook()
  return webhook
}

/** @throws AppError `not_found` */
export async function deliveryOfCaller(
  ctx: Context,
  ids: { readonly webhook_id: string; readonly delivery_id: string },
): Promise<DeliveryRow> {
  await webhookOfCaller(ctx, ids)
  const delivery = await findDelivery(ctx.db, ctx.caller.project_id, ids)
  if (!delivery) throw noSuchDelivery()
  return delivery
}

/** Normalises the URL of a webhook. @throws AppError `invalid` */
export function readUrl({ webhooks }: Config, text: string): string {
  const verdict = judgeWebhookUrl(text, webhooks)
  if (verdict.kind === 'bad') throw invalid(`url ${verdict.reason}`)
  if (!webhooks.allowPrivate && isIP(verdict.host) && !isPublicAddress(verdict.host))
    throw invalid('url has an address that is not public')
  return verdict.url
}
