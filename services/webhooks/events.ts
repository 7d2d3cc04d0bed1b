import { type RawBuilder, sql } from 'kysely'
import { maxWaitingDeliveries, type WebhookEvent } from '../../core/webhooks.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { EventData } from '../../infra/db/schema.ts'
import { deliveryStart } from '../../workflows/contract/webhooks.ts'
import type { Tx } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'

export interface NewEvent {
  readonly type: WebhookEvent
  readonly project_id: string
  readonly site_id: string
  /** Besides `site_id`. */
  readonly data: EventData
}

/**
 * Records an event in the transaction of the change that it describes, and starts its delivery to every webhook of the project that wants
 * it. Without such a webhook nothing is written. A webhook with too many waiting deliveries does not get it.
 */
export async function recordEvent(tx: Tx, { type, project_id, site_id, data }: NewEvent, now: Date): Promise<void> {
  const wanting = await tx
    .selectFrom('webhooks')
    .select(['id', hasRoom.as('has_room')])
    .where('project_id', '=', project_id)
    .where(wantsEvent(type, sql.val(site_id)))
    .execute()
  const full = wanting.filter((webhook) => !webhook.has_room).map(({ id }) => id)
  if (full.length > 0) await markOverflow(tx, full, now)
  const webhookIds = wanting.filter((webhook) => webhook.has_room).map(({ id }) => id)
  if (webhookIds.length === 0) return
  const event = { project_id, type, data: jsonb({ site_id, ...data }), created_at: now }
  const { id: event_id } = await tx.insertInto('webhook_events').values(event).returning('id').executeTakeFirstOrThrow()
  await insertDeliveries(tx, webhookIds, { event_id, project_id, type }, now)
}

/** Whether `webhooks` is to be called for events of the type at the site. */
export const wantsEvent = (type: WebhookEvent, siteId: RawBuilder<unknown>) => sql<boolean>`(
  webhooks.enabled and (webhooks.site_id is null or webhooks.site_id = ${siteId}) and ${type} = any (webhooks.events))`

/** Records a submission that the owner can see. A hidden one, and spam, are no event. The receiver gets its fields only while it can be seen. */
export const recordFormReceived = (
  tx: Tx,
  { submission_id, ...form }: { readonly project_id: string; readonly site_id: string; readonly submission_id: string },
  now: Date,
): Promise<void> => recordEvent(tx, { type: 'form.received', ...form, data: { submission_id } }, now)

/** Inserts deliveries of one event and starts their workflows. */
export async function insertDeliveries(
  tx: Tx,
  webhookIds: readonly string[],
  { event_id, project_id, type }: { readonly event_id: string; readonly project_id: string; readonly type: WebhookEvent },
  now: Date,
): Promise<string[]> {
  const rows = webhookIds.map((webhook_id) => ({ webhook_id, event_id, project_id, created_at: now, next_look_at: now }))
  const inserted = await tx.insertInto('webhook_deliveries').values(rows).returning('id').execute()
  for (const { id } of inserted) await startWorkflow(tx, deliveryStart({ delivery_id: id, project_id, type }))
  return inserted.map(({ id }) => id)
}

/** Whether the webhook may have another waiting delivery; it counts no further than its limit. */
export const hasRoom = sql<boolean>`(
  select count(*) < ${maxWaitingDeliveries} from (
    select 1 from webhook_deliveries where webhook_id = webhooks.id and outcome is null limit ${maxWaitingDeliveries}
  ) waiting)`

/** At most once a minute, because the row is locked until the transaction ends. */
async function markOverflow(tx: Tx, webhookIds: readonly string[], now: Date): Promise<void> {
  await sql`
    update webhooks set overflowed_at = ${now}::timestamptz where id = any (array(
      select id from webhooks where id = any (${webhookIds}::uuid[])
        and (overflowed_at is null or overflowed_at < ${new Date(now.getTime() - 60_000)})
      for no key update skip locked))`.execute(tx)
}
