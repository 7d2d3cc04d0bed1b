/** The columns that decide the state of a domain; the last three belong to its certificate. */
export interface DomainFacts {
  readonly verified_at: Date | null
  /** When the platform next looks for the TXT record by itself; always set for a verified domain. */
  readonly next_check_at: Date | null
  /** When the workflow that connects it was done; null until then, and again after the ownership is lost. */
  readonly connected_at: Date | null
  /** Whether it has a certificate. */
  readonly secured: boolean
  /** The current order of its certificate. */
  readonly order_id: string | null
  /** Why the latest order failed. */
  readonly certificate_error: string | null
}

/**
 * `unverified`: the platform looks for the TXT record. `given_up`: it no longer does. In all other states the site is served. `connecting`: the
 * workflow is about to order a certificate, or to end without one. `certifying`: a certificate is ordered. `without_certificate`: the order was
 * given up. `live`: there is a certificate, or the platform orders none.
 */
export const domainStates = ['unverified', 'given_up', 'connecting', 'certifying', 'without_certificate', 'live'] as const
export type DomainState = (typeof domainStates)[number]

/** Whether the ownership is proved. A domain whose TXT record is missing stays verified until its grace is over. */
export const isVerified = ({ verified_at }: Pick<DomainFacts, 'verified_at'>) => verified_at !== null

/** @param issuing whether the platform orders certificates */
export function domainState(domain: Omit<DomainFacts, 'certificate_error'>, issuing: boolean): DomainState {
  if (!isVerified(domain)) return domain.next_check_at === null ? 'given_up' : 'unverified'
  if (domain.secured || !issuing) return 'live'
  if (domain.order_id !== null) return 'certifying'
  return domain.connected_at === null ? 'connecting' : 'without_certificate'
}

/** The states in which each action on a domain is allowed. */
export const domainActions = {
  /** Order a certificate; an order under way is kept. */
  order: ['connecting', 'certifying', 'without_certificate'],
  /** Begin another attempt when the owner proves the domain, because the workflow of the previous one has ended without success. */
  reopen: ['given_up', 'without_certificate'],
} as const satisfies Record<string, readonly DomainState[]>
export type DomainAction = keyof typeof domainActions

export const domainAllows = (action: DomainAction, state: DomainState) =>
  (domainActions[action] as readonly DomainState[]).includes(state)

export const certificateStatuses = ['none', 'pending', 'issued', 'error'] as const
export type CertificateStatus = (typeof certificateStatuses)[number]

/** The state of the certificate for the owner. An order continues until its next try after the ownership is lost, and so does a certificate. */
export function certificateStatus(domain: DomainFacts, issuing: boolean): CertificateStatus {
  if (domain.secured) return 'issued'
  if (!issuing) return 'none'
  if (domain.certificate_error !== null) return 'error'
  return domain.order_id !== null || domainState(domain, issuing) === 'connecting' ? 'pending' : 'none'
}
