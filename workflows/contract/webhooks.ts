import { signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface DeliveryInput {
  readonly delivery_id: string
  readonly project_id: string
}

/** What the workflow of a delivery does next. */
export type DeliveryStep =
  | { readonly state: 'send'; readonly try: number }
  /** `permit`: enough tries of the project are under way. `pause`: the next try is due later. */
  | { readonly state: 'permit' | 'pause'; readonly wait_ms: number }
  /** `gone`: the webhook was deleted, or the event has expired. */
  | { readonly state: 'ended'; readonly outcome: 'delivered' | 'failed' | 'gone' }

/** The result of one try. */
export interface DeliveryResult {
  /** The HTTP status; null without a response. */
  readonly status: number | null
  readonly duration_ms: number
  /** Null for a success. */
  readonly error: string | null
  /** Whether nothing was sent because of the platform, so that the receiver is not to blame. */
  readonly platform_fault?: boolean
}

/** Implemented in `activities/webhooks.ts`. */
export interface WebhookActivities {
  /** Takes a permit for the next try, when one is due and free. May be repeated. */
  takeTry(input: DeliveryInput): Promise<DeliveryStep>
  /** Calls the webhook. It runs on the webhook queue. Faults of the platform are thrown; all that the receiver does is a result. */
  sendDelivery(input: DeliveryInput): Promise<DeliveryResult>
  /** Stores the result of the try and returns its permit. May be repeated. */
  endTry(input: DeliveryInput & { readonly result: DeliveryResult }): Promise<void>
}

const deliveryWorkflowId = (delivery_id: string) => `webhook:${delivery_id}`

/** Holds neither the URL nor what the event tells, because Temporal does not encrypt what it stores. */
export const deliveryStart = (delivery: {
  readonly delivery_id: string
  readonly project_id: string
  readonly type: string
}): WorkflowStart<'deliverWebhook', DeliveryInput> => ({
  workflow_id: deliveryWorkflowId(delivery.delivery_id),
  type: 'deliverWebhook',
  input: { delivery_id: delivery.delivery_id, project_id: delivery.project_id },
  summary: `webhook: ${delivery.type}`,
  attributes: { ProjectId: delivery.project_id, Trigger: 'api' },
})

/** Signals that a try of the project has ended, so that a waiting delivery may take its permit. */
export const permitSignal = (delivery_id: string): WorkflowSignal<never> => ({
  workflow_id: deliveryWorkflowId(delivery_id),
  signal: signals.permit,
})
