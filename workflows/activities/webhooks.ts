import { cancellationSignal } from '@temporalio/activity'
import { isDelivered, messageId } from '../../core/webhooks.ts'
import { open } from '../../infra/crypto/seal.ts'
import { signatureHeaders } from '../../infra/crypto/webhook-signatures.ts'
import { FetchError } from '../../infra/net/fetch-error.ts'
import { type GuardedResponse, openGuardedClient } from '../../infra/net/guarded-fetch.ts'
import type { ShownDeploy } from '../../services/feeds/freshness.ts'
import { findShownFields } from '../../services/forms/inbox.ts'
import type { Services } from '../../services/services.ts'
import { endTry, findMessage, type Message, takeTry } from '../../services/webhooks/tries.ts'
import { secretOf } from '../../services/webhooks/webhooks.ts'
import type { DeliveryResult, WebhookActivities } from '../contract/webhooks.ts'

/** The time limit of one try, with the name's look-up and the response. */
const timeoutMs = 10_000
/** A longer response is cut off: its status has been read. */
const maxResponseBytes = 4096
const maxErrorLength = 300

/** The steps of a delivery. Its payload and secret stay in its activity. */
export function createWebhookActivities(services: Services): WebhookActivities {
  const { db, config, keyring, freshness, clock, log } = services

  async function post({ webhook_id, url }: Message, headers: Record<string, string>, body: string): Promise<DeliveryResult> {
    const { allowPrivate } = config.webhooks
    await using client = openGuardedClient({ allowPrivate, timeoutMs, signal: cancellationSignal() })
    const begun = performance.now()
    const ended = (status: number | null, error: string | null): DeliveryResult => {
      const duration_ms = Math.round(performance.now() - begun)
      return { status, duration_ms, error: error?.slice(0, maxErrorLength).toWellFormed() ?? null }
    }
    try {
      const sent = { url, method: 'POST', headers, body: Buffer.from(body), maxBytes: maxResponseBytes } as const
      const response = await client.request(sent)
      const { status } = response
      await drop(response)
      return ended(status, isDelivered(status) ? null : failureOf(status))
    } catch (error) {
      if (!(error instanceof FetchError)) throw error
      if (error.refusedName) log.info({ refused: error.refusedName, webhook_id }, 'name of a webhook refused')
      return ended(null, error.message)
    }
  }

  /** The event as the receiver gets it. It names a submission; the fields are read again, because it may have been deleted since. */
  async function dataOf({ type, data }: Message, project_id: string): Promise<object> {
    if (type !== 'form.received') return data
    const { submission_id } = data
    const fields = await findShownFields(db, project_id, String(submission_id))
    return fields ? { ...data, fields } : data
  }

  return {
    takeTry: (input) => takeTry(services, input),

    async sendDelivery({ delivery_id, project_id }) {
      const message = await findMessage(db, delivery_id)
      if (!message) return { status: null, duration_ms: 0, error: 'the webhook is disabled or gone' }
      const { webhook_id, secret_sealed, event_id, type, created_at } = message
      await freshness.untilServed(shownBy(message), cancellationSignal)
      const data = await dataOf(message, project_id)
      const body = JSON.stringify({ type, timestamp: created_at.toISOString(), data })
      const secret = open(keyring, secret_sealed, secretOf(webhook_id))
      const signed = signatureHeaders(secret, { id: messageId(event_id), sentAt: clock(), body })
      const result = await post(message, { 'content-type': 'application/json', 'user-agent': 'Plinth-Webhooks', ...signed }, body)
      // the error may name the host
      log.info({ delivery_id, webhook_id, status: result.status, duration_ms: result.duration_ms }, 'webhook called')
      return result
    },

    endTry: ({ result, ...input }) => endTry(services, input, result),
  }
}

/** The deploy of which the receiver learns. The event was recorded when the deploy went live. */
function shownBy({ type, data, created_at }: Message): ShownDeploy[] {
  const { deploy_id, site_id, status } = data
  if (type !== 'deploy.succeeded' || status !== 'active') return []
  return [{ id: String(deploy_id), site_id: String(site_id), status, activated_at: created_at }]
}

const failureOf = (status: number) =>
  status >= 300 && status < 400 ? `the answer was ${status}; redirects are not followed` : `the answer was ${status}`

/** Reads the beginning of a response, so that its connection ends well; what follows does not matter. */
async function drop({ body }: GuardedResponse): Promise<void> {
  try {
    for await (const _chunk of body);
  } catch (error) {
    if (!(error instanceof FetchError)) throw error
  }
}
