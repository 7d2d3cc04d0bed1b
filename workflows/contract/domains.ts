import { shortName, signals, type WorkflowSignal, type WorkflowStart } from '../contract.ts'

export interface DomainInput {
  readonly domain_id: string
  readonly attempt: number
  readonly domain: string
  /** The first pause between two look-ups; later ones grow. */
  readonly check_interval_ms: number
}

const domainWorkflowId = (domain_id: string, attempt: number) => `domain:${domain_id}:${attempt}`

export function domainStart(
  domain: DomainInput & { readonly project_id: string; readonly site_id: string; readonly site_name: string },
): WorkflowStart {
  const { domain_id, attempt, check_interval_ms } = domain
  const input: DomainInput = { domain_id, attempt, domain: domain.domain, check_interval_ms }
  return {
    workflow_id: domainWorkflowId(domain_id, attempt),
    type: 'connectDomain',
    input,
    summary: `**${domain.domain.slice(0, 80)}** for ${shortName(domain.site_name)}`,
    attributes: {
      ProjectId: domain.project_id,
      SiteId: domain.site_id,
      SiteName: domain.site_name,
      Domain: domain.domain,
      Trigger: 'api',
    },
  }
}

/** The domain was verified by hand or removed: its workflow looks again. */
export const domainChangedSignal = (domain: Pick<DomainInput, 'domain_id' | 'attempt'>): WorkflowSignal => ({
  workflow_id: domainWorkflowId(domain.domain_id, domain.attempt),
  signal: signals.changed,
})
