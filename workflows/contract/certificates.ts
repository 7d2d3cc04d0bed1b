import type { WorkflowSignal, WorkflowStart } from './messages.ts'
import { signals } from './messages.ts'

export interface OrderInput {
  readonly certificate_id: string
  readonly order_id: string
  /** The name that the certificate is for, perhaps a wildcard. */
  readonly name: string
  /** The pause after the first failure; later ones grow. */
  readonly retry_pause_ms: number
  /** 30 days when absent. */
  readonly give_up_after_ms?: number
}

/** How an order ends. `stale`: another order took its place, or the name may not have a certificate any more. */
export type OrderOutcome =
  | { readonly outcome: 'issued'; readonly not_after: string }
  | { readonly outcome: 'given_up'; readonly error: string }
  | { readonly outcome: 'stale' }

/** One step of an order. */
export type OrderStep = Pick<OrderInput, 'certificate_id' | 'order_id' | 'retry_pause_ms'>

/** The result of the preflight check: whether the certificate authority would find the answer to its challenge. */
export type OrderCheck =
  | {
      readonly state: 'passed' | 'failed'
      /** The finding, and what the owner should do. */
      readonly message: string
      /** How many tries have failed before. */
      readonly tries: number
      /** Whether a staging authority is set for a rehearsal. */
      readonly can_rehearse: boolean
    }
  | { readonly state: 'stale' }

export type OrderResult =
  | { readonly state: 'issued'; readonly not_after: string }
  /** The rehearsal succeeded. */
  | { readonly state: 'rehearsed' }
  /** The authority did not find the answer to its challenge, or will not issue for the name. */
  | { readonly state: 'refused'; readonly error: string }
  | { readonly state: 'stale' }

/** Activities of the control queue, implemented in `activities/certificates.ts`. The row decides, so each may be repeated. */
export interface CertificateActivities {
  checkOrder(step: OrderStep): Promise<OrderCheck>
  /** Orders a certificate and stores it, or only rehearses with the staging authority. An authority that is down is a retryable failure. */
  placeOrder(step: OrderStep & { readonly rehearsal: boolean }): Promise<OrderResult>
  /** Stores why a try failed and when the next one begins. False when another order took its place. */
  postponeOrder(
    step: OrderStep & { readonly error: string; readonly tries: number; readonly next_try_at: string },
  ): Promise<boolean>
  giveUpOrder(step: OrderStep & { readonly error: string }): Promise<void>
  /** Begins the orders that are due; returns a line for operators. */
  startDueOrders(): Promise<string>
}

const orderWorkflowId = ({ order_id }: Pick<OrderInput, 'order_id'>) => `certificate:${order_id}`

/** @param owner the project and site of the domain; null for a name of the platform */
export function orderStart(
  input: OrderInput,
  owner: { project_id: string; site_id: string } | null,
): WorkflowStart<'issueCertificate', OrderInput> {
  return {
    workflow_id: orderWorkflowId(input),
    type: 'issueCertificate',
    input,
    summary: `**${input.name.slice(0, 80)}** certificate`,
    attributes: {
      Domain: input.name,
      Trigger: 'schedule',
      ...(owner && { ProjectId: owner.project_id, SiteId: owner.site_id }),
    },
  }
}

/** Signals that the cause of an order's failures may be gone, so that it is retried at once. */
export const orderRetrySignal = (order: Pick<OrderInput, 'order_id'>): WorkflowSignal<never> => ({
  workflow_id: orderWorkflowId(order),
  signal: signals.changed,
})
