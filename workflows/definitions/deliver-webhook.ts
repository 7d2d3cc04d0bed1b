import {
  ActivityFailure,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  upsertMemo,
} from '@temporalio/workflow'
import { queues, signals } from '../contract/messages.ts'
import type { DeliveryInput, DeliveryResult, WebhookActivities } from '../contract/webhooks.ts'
import { createSignalFlag } from './signal-flag.ts'

const patient = {
  startToCloseTimeout: '15s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '1m' },
} as const
const { takeTry } = proxyLocalActivities<WebhookActivities>({ summary: 'take a permit for the next try', ...patient })
const { endTry } = proxyLocalActivities<WebhookActivities>({ summary: 'store the result of the try', ...patient })

const { sendDelivery } = proxyActivities<WebhookActivities>({
  taskQueue: queues.webhook,
  startToCloseTimeout: '30s',
  // retries faults of the platform only, which are no try: what the receiver does is a result
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
})

const details = {
  delivered: '✅ delivered',
  failed: '❌ not delivered',
  gone: '➖ the webhook is gone',
}

/** Delivers one event to one webhook: up to eight tries, with pauses that grow. The row decides what is next. */
export async function deliverWebhook(input: DeliveryInput): Promise<keyof typeof details> {
  const permit = createSignalFlag(signals.permit, 'Another delivery of the project has ended, so a permit may be free.')
  for (;;) {
    permit.lower()
    const step = await takeTry(input)
    if (step.state === 'ended') {
      setCurrentDetails(details[step.outcome])
      upsertMemo({ outcome: details[step.outcome] })
      return step.outcome
    }
    if (step.state === 'send') {
      setCurrentDetails(`⏳ try ${step.try}`)
      await endTry({ ...input, result: await send(input, step.try) })
    } else {
      setCurrentDetails(
        step.state === 'permit' ? '⏳ waiting for other deliveries of the project' : '⏳ waiting for the next try',
      )
      await permit.wait(step.wait_ms, step.state === 'permit' ? 'a permit to try' : 'the next try')
    }
  }
}

async function send(input: DeliveryInput, number: number): Promise<DeliveryResult> {
  try {
    const options = { summary: `try ${number}`, priority: { fairnessKey: input.project_id } }
    return await sendDelivery.executeWithOptions(options, [input])
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error
    return { status: null, duration_ms: 0, error: 'the platform could not send it', platform_fault: true }
  }
}
