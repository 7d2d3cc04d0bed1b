/** The columns that make the state of a domain; the last three are those of its certificate. */
export interface DomainFacts {
  readonly verified_at: Date | null
  /** When the platform looks for the TXT record by itself; a verified domain always has one. */
  readonly next_check_at: Date | null
  /** When the workflow that connects it had nothing left to do; null until then, and again after the ownership was lost. */
  readonly connected_at: Date | null
  /** It has a certificate. */
  readonly secured: boolean
  /** The order of a certificate that is under way. */
  readonly order_id: string | null
  /** Why the last try for a certificate failed. */
  readonly certificate_error: string | null
}

/**
 * `unverified`: the TXT record is looked for. `given_up`: it is not looked for any more. The site answers in all others. `connecting`: the
 * workflow is about to order a certificate, or to end without one. `certifying`: a certificate is ordered. `without_certificate`: the
 * order was given up. `live`: there is a certificate, or the platform has none issued.
 */
export const domainStates = ['unverified', 'given_up', 'connecting', 'certifying', 'without_certificate', 'live'] as const
export type DomainState = (typeof domainStates)[number]

/** Whether the ownership is proved. One whose TXT record is missing stays verified until its grace is over. */
export const isVerified = ({ verified_at }: Pick<DomainFacts, 'verified_at'>) => verified_at !== null

/** @param issuing whether the platform has certificates issued */
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
  /** Begin another attempt when the owner proves the domain: the workflow of the last one has ended without success. */
  reopen: ['given_up', 'without_certificate'],
} as const satisfies Record<string, readonly DomainState[]>
export type DomainAction = keyof typeof domainActions

export const domainAllows = (action: DomainAction, state: DomainState) =>
  (domainActions[action] as readonly DomainState[]).includes(state)

export const certificateStatuses = ['none', 'pending', 'issued', 'error'] as const
export type CertificateStatus = (typeof certificateStatuses)[number]

/** What the owner is shown of the certificate. An order outlives the ownership until its next try, and so does a certificate. */
export function certificateStatus(domain: DomainFacts, issuing: boolean): CertificateStatus {
  if (domain.secured) return 'issued'
  if (!issuing) return 'none'
  if (domain.certificate_error !== null) return 'error'
  return domain.order_id !== null || domainState(domain, issuing) === 'connecting' ? 'pending' : 'none'
}
