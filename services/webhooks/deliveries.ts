import { type Selectable, sql } from 'kysely'
import { conflict, notFound, secondsUntil, tooManyRequests } from '../../core/errors.ts'
import { maxRedeliveriesPerHour, maxWaitingDeliveries, type WebhookEvent } from '../../core/webhooks.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { permitSignal } from '../../workflows/contract/webhooks.ts'
import { takeAllowance } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { hasRoom, insertDeliveries } from './events.ts'

export type DeliveryRow = Selectable<DB['webhook_deliveries']> & { readonly type: WebhookEvent }

const deliveries = (db: Db) =>
  db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .selectAll('webhook_deliveries')
    .select('webhook_events.type')

interface Page {
  readonly limit: number
  /** The id of the last delivery of the previous page. */
  readonly before: string | undefined
}

/** Lists the deliveries of a webhook, newest first; `next` is the id of the last one, when others follow. */
export async function listDeliveries(
  db: Db,
  webhookId: string,
  { limit, before }: Page,
): Promise<{ readonly rows: readonly DeliveryRow[]; readonly next: string | undefined }> {
  const rows = await deliveries(db)
    .where('webhook_deliveries.webhook_id', '=', webhookId)
    .$if(before !== undefined, (query) => query.where('webhook_deliveries.id', '<', before ?? ''))
    .orderBy('webhook_deliveries.id', 'desc')
    .limit(limit + 1)
    .execute()
  const shown = rows.slice(0, limit)
  return { rows: shown, next: rows.length > limit ? shown.at(-1)?.id : undefined }
}

interface DeliveryOfCaller {
  readonly webhook_id: string
  readonly delivery_id: string
}

/** Undefined when the project has no such delivery. */
export function findDelivery(
  db: Db,
  projectId: string,
  { webhook_id, delivery_id }: DeliveryOfCaller,
): Promise<DeliveryRow | undefined> {
  return deliveries(db)
    .where('webhook_deliveries.id', '=', delivery_id)
    .where('webhook_deliveries.webhook_id', '=', webhook_id)
    .where('webhook_deliveries.project_id', '=', projectId)
    .executeTakeFirst()
}

export const noSuchDelivery = () =>
  notFound('the webhook has no delivery with this id; list_webhook_deliveries shows those of the last 30 days')

const hourMs = 3_600_000

/**
 * Delivers the event of a delivery once more, under the same message id.
 * @throws AppError `conflict` when the webhook is disabled or has too many waiting deliveries; `too_many_requests`
 */
export function redeliver(services: Services, before: DeliveryRow): Promise<DeliveryRow> {
  const { webhook_id, event_id, project_id, type } = before
  return transact(services, async (tx) => {
    const now = services.clock()
    const webhook = await tx
      .selectFrom('webhooks')
      .select(['enabled', hasRoom.as('has_room')])
      .where('id', '=', webhook_id)
      .forShare()
      .executeTakeFirst()
    if (!webhook) throw noSuchDelivery()
    if (!webhook.enabled) throw conflict('the webhook is disabled; enable it with update_webhook first', 'webhook_disabled')
    if (!webhook.has_room) throw conflict(`${maxWaitingDeliveries} deliveries of the webhook are waiting already`)
    const [delivery_id = ''] = await insertDeliveries(tx, [webhook_id], { event_id, project_id, type }, now)
    const allowance = { project_id, kind: 'webhook_redeliveries', limit: maxRedeliveriesPerHour, periodMs: hourMs }
    const next = await takeAllowance(tx, allowance, now)
    if (next) throw tooManyRedeliveries(secondsUntil(next, now))
    const row = await findDelivery(tx, project_id, { webhook_id, delivery_id })
    if (!row) throw noSuchDelivery()
    return row
  })
}

const tooManyRedeliveries = (seconds: number) =>
  tooManyRequests(
    `${maxRedeliveriesPerHour} deliveries of the project were repeated within an hour: try again in ${seconds} s`,
    seconds,
    'rate_redeliveries',
  )

/** Ends the deliveries of a disabled webhook that no try is under way for, under the lock of the webhook; their workflows end. */
export async function giveUpWaiting(tx: Tx, webhookId: string, now: Date): Promise<void> {
  const ended = await tx
    .updateTable('webhook_deliveries')
    .set({ outcome: 'failed', ended_at: now, waiting_since: null, next_look_at: null })
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('webhook_deliveries')
        .select('id')
        .where('webhook_id', '=', webhookId)
        .where('outcome', 'is', null)
        .where(sql<boolean>`trying_since is null`)
        .orderBy('id')
        .forUpdate(),
    )
    .returning('id')
    .execute()
  await signalWorkflows(
    tx,
    ended.map(({ id }) => permitSignal(id)),
  )
}
