import { signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface CheckoutInput {
  readonly checkout_id: string
}

/** How a payment ended. `refused`: what was paid is not what was asked for. `gone`: its site was removed. */
export type CheckoutOutcome = 'paid' | 'expired' | 'refunded' | 'refused' | 'gone'

/** What the workflow of a payment does next. */
export type CheckoutStep =
  /** `begun`: the provider has its page. `message`: why it is waited for, for operators. */
  | { readonly state: 'waiting'; readonly begun: boolean; readonly message: string; readonly wait_ms: number }
  | { readonly state: 'ended'; readonly outcome: CheckoutOutcome }

/** Implemented in `activities/payments.ts`. */
export interface PaymentActivities {
  /** Begins a payment at its provider, or asks how it goes, and applies the answer. May be repeated. It runs on the payment queue. */
  lookAtCheckout(input: CheckoutInput): Promise<CheckoutStep>
}

interface CheckoutOfStart {
  readonly checkout_id: string
  readonly site_id: string
  readonly project_id: string
}

const checkoutWorkflowId = (checkout_id: string) => `checkout:${checkout_id}`

/** Holds neither a person nor an address, because Temporal does not encrypt what it stores. */
export const checkoutStart = ({
  checkout_id,
  site_id,
  project_id,
}: CheckoutOfStart): WorkflowStart<'followCheckout', CheckoutInput> => ({
  workflow_id: checkoutWorkflowId(checkout_id),
  type: 'followCheckout',
  input: { checkout_id },
  summary: 'payment for a closed site',
  attributes: { ProjectId: project_id, SiteId: site_id, Trigger: 'api' },
})

/** Signals that there may be news of a payment; starts its workflow again when that has ended. */
export const checkoutSignal = (checkout: CheckoutOfStart): WorkflowSignal<WorkflowStart<'followCheckout', CheckoutInput>> => ({
  workflow_id: checkoutWorkflowId(checkout.checkout_id),
  signal: signals.changed,
  start: checkoutStart(checkout),
})
