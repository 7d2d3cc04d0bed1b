import { type Selectable, sql, type UpdateObject } from 'kysely'
import { deliveryPauseMs, isDelivered, maxTriesUnderWay, webhookFailurePeriodMs } from '../../core/webhooks.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import { type DeliveryInput, type DeliveryResult, type DeliveryStep, permitSignal } from '../../workflows/contract/webhooks.ts'
import { insertNotification } from '../notifications/notifications.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { giveUpWaiting } from './deliveries.ts'
import { lockWebhook, type WebhookRow } from './webhooks.ts'

/** A try that has not ended by then has lost its worker. Longer than the time limit of a try. */
const lostTryMs = 60_000
/** How long a delivery waits for a signal before it looks for a permit by itself. */
const permitPatienceMs = 5 * 60_000

/** Takes a permit for the next try of a delivery, when one is due and free. May be repeated. */
export function takeTry(services: Services, { delivery_id, project_id }: DeliveryInput): Promise<DeliveryStep> {
  return transact(services, async (tx): Promise<DeliveryStep> => {
    const now = services.clock()
    await lockTries(tx, project_id)
    const delivery = await lockDelivery(tx, delivery_id)
    if (!delivery) return { state: 'ended', outcome: 'gone' }
    const { outcome, next_look_at, tries } = delivery
    if (outcome) return { state: 'ended', outcome }
    const pauseMs = (next_look_at?.getTime() ?? 0) - now.getTime()
    const isPaused = delivery.trying_since === null && delivery.waiting_since === null
    if (isPaused && pauseMs > 0) return { state: 'pause', wait_ms: pauseMs }
    if ((await countTries(tx, project_id, now, delivery_id)) >= maxTriesUnderWay) {
      const waiting = { waiting_since: delivery.waiting_since ?? now, trying_since: null }
      await setState(tx, delivery_id, { ...waiting, next_look_at: new Date(now.getTime() + permitPatienceMs) })
      return { state: 'permit', wait_ms: permitPatienceMs }
    }
    const lookAgain = new Date(now.getTime() + lostTryMs)
    await setState(tx, delivery_id, { trying_since: now, waiting_since: null, next_look_at: lookAgain })
    return { state: 'send', try: tries.length + 1 }
  })
}

/**
 * Stores the result of a try and gives its permit to the delivery of the project that has waited longest. A webhook without any success for a
 * day is disabled, with a notification; a fault of the platform does not count. May be repeated.
 */
export function endTry(
  services: Services,
  { delivery_id, project_id }: DeliveryInput,
  { platform_fault = false, ...result }: DeliveryResult,
): Promise<void> {
  return transact(services, async (tx) => {
    const now = services.clock()
    await lockTries(tx, project_id)
    const webhook = await lockWebhookOf(tx, delivery_id)
    const delivery = webhook && (await lockDelivery(tx, delivery_id))
    if (!delivery || delivery.outcome || !delivery.trying_since) return
    const delivered = isDelivered(result.status)
    const pauseMs = deliveryPauseMs(delivery.tries.length + 1, services.config.webhooks.retryPauseMs)
    const next = delivered || !webhook.enabled || pauseMs === undefined ? undefined : new Date(now.getTime() + pauseMs)
    const entry = { at: now.toISOString(), ...result }
    await setState(tx, delivery_id, {
      tries: jsonb([...delivery.tries, entry]),
      trying_since: null,
      next_look_at: next ?? null,
      ...(!next && { outcome: delivered ? 'delivered' : 'failed', ended_at: now }),
    })
    if (delivered) await setFailingSince(tx, webhook, null)
    else if (!platform_fault) await fail(tx, services, webhook, result, now)
    await grantPermits(tx, project_id, now)
  })
}

/** What the request of a delivery is made of. Undefined when there is nothing to send any more. */
export function findMessage(db: Db, deliveryId: string) {
  return db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'webhook_deliveries.webhook_id')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .select(['webhooks.id as webhook_id', 'webhooks.url', 'webhooks.secret_sealed'])
    .select(['webhook_events.id as event_id', 'webhook_events.type', 'webhook_events.data', 'webhook_events.created_at'])
    .where('webhook_deliveries.id', '=', deliveryId)
    .where('webhook_deliveries.outcome', 'is', null)
    .where('webhooks.enabled', '=', true)
    .executeTakeFirst()
}

export type Message = NonNullable<Awaited<ReturnType<typeof findMessage>>>

/** Lists deliveries whose workflow should have looked at them before the instant, by id. */
export function listStalledDeliveries(db: Db, before: Date, page: { limit: number; afterId: string | undefined }) {
  return db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .select(['webhook_deliveries.id as delivery_id', 'webhook_deliveries.project_id', 'webhook_events.type'])
    .where('outcome', 'is', null)
    .where('next_look_at', '<', before)
    .$if(page.afterId !== undefined, (query) => query.where('webhook_deliveries.id', '>', page.afterId ?? ''))
    .orderBy('webhook_deliveries.id')
    .limit(page.limit)
    .execute()
}

/** One transaction at a time counts and takes the permits of a project. */
const lockTries = (tx: Tx, projectId: string) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`webhook tries of ${projectId}`}, 0))`.execute(tx)

type Delivery = Selectable<DB['webhook_deliveries']>

const lockDelivery = (tx: Tx, id: string): Promise<Delivery | undefined> =>
  tx.selectFrom('webhook_deliveries').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()

async function lockWebhookOf(tx: Tx, deliveryId: string): Promise<WebhookRow | undefined> {
  const found = await tx.selectFrom('webhook_deliveries').select('webhook_id').where('id', '=', deliveryId).executeTakeFirst()
  return found && (await lockWebhook(tx, found.webhook_id))
}

/** Counts the tries of the project that are under way, besides those of one delivery. */
async function countTries(tx: Tx, projectId: string, now: Date, besides?: string): Promise<number> {
  const { count } = await tx
    .selectFrom('webhook_deliveries')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .where('trying_since', '>', new Date(now.getTime() - lostTryMs))
    .$if(besides !== undefined, (query) => query.where('id', '<>', besides ?? ''))
    .executeTakeFirstOrThrow()
  return count
}

async function setState(tx: Tx, id: string, state: UpdateObject<DB, 'webhook_deliveries'>): Promise<void> {
  await tx.updateTable('webhook_deliveries').set(state).where('id', '=', id).execute()
}

async function setFailingSince(tx: Tx, { id, failing_since }: WebhookRow, since: Date | null): Promise<void> {
  if (failing_since?.getTime() === since?.getTime()) return
  await tx.updateTable('webhooks').set({ failing_since: since }).where('id', '=', id).execute()
}

/** Notes that a webhook fails, and disables it when it has failed for a day. */
async function fail(tx: Tx, services: Services, webhook: WebhookRow, result: DeliveryResult, now: Date): Promise<void> {
  const since = webhook.failing_since ?? now
  await setFailingSince(tx, webhook, since)
  if (!webhook.enabled || now.getTime() - since.getTime() < webhookFailurePeriodMs) return
  const disabled_reason = `no delivery has succeeded for 24 hours; the latest error: ${result.error ?? ''}`
  await tx.updateTable('webhooks').set({ enabled: false, disabled_reason }).where('id', '=', webhook.id).execute()
  await giveUpWaiting(tx, webhook.id, now)
  const { project_id, site_id } = webhook
  const { host } = new URL(webhook.url)
  const title = `A webhook at ${host} was disabled`
  const message = `The webhook ${webhook.id} was disabled, because ${disabled_reason}. Correct that, then enable it again.`
  await insertNotification(tx, project_id, { kind: 'webhook_disabled', title, message, site_id }, now)
  tx.afterCommit(() => services.log.info({ project_id, webhook_id: webhook.id }, 'webhook disabled'))
}

/** Signals as many waiting deliveries as there are free permits; each takes its permit by itself. */
async function grantPermits(tx: Tx, projectId: string, now: Date): Promise<void> {
  const free = maxTriesUnderWay - (await countTries(tx, projectId, now))
  const waiting = await tx
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('project_id', '=', projectId)
    .where('waiting_since', 'is not', null)
    .orderBy('waiting_since')
    .limit(Math.max(free, 0))
    .execute()
  await signalWorkflows(
    tx,
    waiting.map(({ id }) => permitSignal(id)),
  )
}
