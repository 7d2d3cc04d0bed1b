import type { WorkflowStart } from '../contract.ts'

export interface OrderInput {
  readonly certificate_id: string
  readonly order_id: string
  /** The name that the certificate is for, perhaps a wildcard. */
  readonly name: string
  /** The pause after the first failure; later ones grow. */
  readonly retry_pause_ms: number
}

/** How an order ends. `stale`: another order took its place, or the name is gone. */
export type OrderOutcome =
  | { readonly outcome: 'issued'; readonly not_after: string }
  | { readonly outcome: 'given_up'; readonly error: string }
  | { readonly outcome: 'stale' }

export const orderWorkflowId = ({ order_id }: Pick<OrderInput, 'order_id'>) => `certificate:${order_id}`

/** @param owner whose domain it is for; null for a name of the platform */
export function orderStart(input: OrderInput, owner: { project_id: string; site_id: string } | null): WorkflowStart {
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
