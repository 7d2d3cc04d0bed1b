import type { OrderInput } from './certificates.ts'
import { shortName, signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface DomainInput {
  readonly domain_id: string
  readonly attempt: number
  readonly domain: string
  /** The first pause between two look-ups; later ones grow. */
  readonly check_interval_ms: number
}

export type DomainRun = Pick<DomainInput, 'domain_id' | 'attempt'>

/** The result of a check of a domain. `stale`: another attempt owns the domain, or it is gone. */
export type DomainCheck =
  | { readonly state: 'verified' }
  /** `message`: what is missing, for operators. */
  | { readonly state: 'waiting'; readonly message: string; readonly next_check_at: string }
  | { readonly state: 'given_up' }
  | { readonly state: 'stale' }

/** `none`: there is a certificate already, or none is needed. */
export type CertificateStep =
  | { readonly state: 'none' }
  | { readonly state: 'ordered'; readonly order: OrderInput; readonly owner: { project_id: string; site_id: string } }
  /** The site is in the trash. */
  | { readonly state: 'waiting' }
  | { readonly state: 'stale' }

/** `pending`: its certificate is still being ordered. */
export type Settled = 'live' | 'without_certificate' | 'pending' | 'stale'

/** How the workflow of a domain ends. */
export type DomainOutcome = Exclude<Settled, 'pending'> | 'given_up'

/** Activities of the control queue, implemented in `activities/domains.ts` and `activities/recheck-domains.ts`. Each may be repeated. */
export interface DomainActivities {
  /**
   * Checks the row and, unless the domain is verified already, its DNS records. Stores the findings and the instant of the next look-up.
   * @param input.look false checks only the row
   */
  checkDomain(input: DomainRun & { readonly look: boolean; readonly pause_ms: number }): Promise<DomainCheck>
  /** Writes the order of a certificate, for which the workflow has to start the child. */
  beginCertificate(run: DomainRun): Promise<CertificateStep>
  /** Ends the attempt by the state of the certificate, and emails the owner once. */
  settleDomain(run: DomainRun): Promise<Settled>
  /** Checks the ownership of every verified domain that is due; returns a line for operators. */
  recheckDomains(): Promise<string>
}

export const domainWorkflowId = ({ domain_id, attempt }: DomainRun) => `domain:${domain_id}:${attempt}`

export function domainStart(
  domain: DomainInput & { readonly project_id: string; readonly site_id: string; readonly site_name: string },
): WorkflowStart<'connectDomain', DomainInput> {
  const { domain_id, attempt, check_interval_ms } = domain
  const input: DomainInput = { domain_id, attempt, domain: domain.domain, check_interval_ms }
  return {
    workflow_id: domainWorkflowId(domain),
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

/** Signals that the owner has verified or removed the domain, so that its workflow looks again. */
export const domainChangedSignal = (domain: DomainRun): WorkflowSignal<never> => ({
  workflow_id: domainWorkflowId(domain),
  signal: signals.changed,
})
