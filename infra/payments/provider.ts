import type { IncomingHttpHeaders } from 'node:http'
import type { PaymentStatus } from '../../core/payments.ts'

/** A payment to begin at a provider. */
export interface NewPayment {
  readonly amount_minor: number
  readonly currency: string
  /** What is paid for, in at most 128 characters. */
  readonly description: string
  /** Where the provider sends the payer back to, paid or not. */
  readonly return_url: string
  /** Comes back with every status. */
  readonly metadata: PaymentMetadata
  /** Repeating a call with the same key begins no second payment. */
  readonly idempotency_key: string
  /** A provider that lets us choose lets nobody begin to pay after this instant. */
  readonly expires_at: Date
}

export interface PaymentMetadata {
  readonly checkout_id: string
  readonly site_id: string
}

export interface BegunPayment {
  /** The provider's page. */
  readonly checkout_url: string
  readonly external_id: string
}

/** The payment that a callback is about, by one of the provider's names for it or by ours; none for what we do not need. */
export interface NamedPayment {
  readonly external_id?: string
  readonly checkout_id?: string
  /** That of {@link PaymentStatus}. */
  readonly payment_id?: string
}

/** A payment provider. A callback only names a payment; its status is always asked for. */
export interface PaymentProvider {
  /** May be repeated. @throws PaymentError */
  createCheckout(payment: NewPayment): Promise<BegunPayment>
  /** Undefined when the provider does not know the payment. @throws PaymentError */
  getStatus(external_id: string): Promise<PaymentStatus | undefined>
  /** @throws PaymentError `forged` for a callback that is not signed as it should be, or cannot be read */
  parseWebhook(headers: IncomingHttpHeaders, raw: Buffer): NamedPayment
}

/**
 * - `refused`: the provider does not accept the payment, and never will
 * - `unavailable`: a retry may succeed
 * - `forged`: a callback that is not the provider's
 */
export type PaymentErrorKind = 'refused' | 'unavailable' | 'forged'

/** A failure at a payment provider. The message is for operators and owners, and contains no secret. */
export class PaymentError extends Error {
  override readonly name = 'PaymentError'
  readonly kind: PaymentErrorKind

  constructor(kind: PaymentErrorKind, message: string) {
    super(message)
    this.kind = kind
  }
}

/** How providers write their ids; others are not sent to them. */
const idForm = /^[A-Za-z0-9_-]{1,255}$/

/** @throws PaymentError `unavailable` for what cannot be an id */
export function readId(value: unknown): string {
  if (typeof value === 'string' && idForm.test(value)) return value
  throw new PaymentError('unavailable', 'the payment provider names the payment in a way that is not known')
}

/** As {@link readId}; undefined instead of an error. */
export const findId = (value: unknown): string | undefined =>
  typeof value === 'string' && idForm.test(value) ? value : undefined

const maxUrlLength = 4096

/** The address of the page where the visitor pays. @throws PaymentError `unavailable` */
export function readPageUrl(value: unknown): string {
  const url = typeof value === 'string' && value.length <= maxUrlLength ? URL.parse(value) : null
  if (url && (url.protocol === 'https:' || url.protocol === 'http:')) return url.href
  throw new PaymentError('unavailable', 'the payment provider gave no page to pay on')
}

/** The JSON of a callback. @throws PaymentError `forged` */
export function parseCallback(raw: Buffer): Members {
  try {
    return membersOf(JSON.parse(raw.toString('utf8')))
  } catch {
    throw new PaymentError('forged', 'the callback is not JSON')
  }
}

export type Members = Readonly<Record<string, unknown>>

/** The members of an object; none of anything else. */
export const membersOf = (value: unknown): Members => (typeof value === 'object' && value !== null ? (value as Members) : {})
