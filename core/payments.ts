/** `manual`: the owner takes the money and says so. `test`: a page with two buttons, for trying out. */
export const paymentProviderNames = ['manual', 'test', 'yookassa', 'stripe'] as const
export type PaymentProviderName = (typeof paymentProviderNames)[number]
/** The providers that have a page for payments. */
export const checkoutProviderNames = ['test', 'yookassa', 'stripe'] as const satisfies readonly PaymentProviderName[]
export type CheckoutProviderName = (typeof checkoutProviderNames)[number]

/** Currencies without digits after the point (ISO 4217). */
const wholeCurrencies = 'CLP JPY KRW PYG RWF VND XAF XOF'.split(' ')
/** Currencies with two digits after the point. Those with three are left out, because Stripe rounds their last digit. */
const usualCurrencies =
  'AED AMD ARS AUD AZN BAM BGN BRL CAD CHF CNY COP CZK DKK EGP EUR GBP GEL HKD IDR ILS INR KES KGS KZT MAD MDL MXN MYR NGN NOK NZD PEN PHP PLN RON RSD RUB SAR SEK SGD THB TRY UAH USD UZS ZAR'.split(
    ' ',
  )

/** Every currency that a price may have, in upper case. */
export const currencies: readonly string[] = [...wholeCurrencies, ...usualCurrencies].sort()

/** The currencies that a provider takes. */
export const currenciesOf = (provider: PaymentProviderName): readonly string[] => (provider === 'yookassa' ? ['RUB'] : currencies)

/** A price is at most this many of the smallest unit of its currency. */
export const maxAmountMinor = 1_000_000_000
/** The longest period that a payment is for. */
export const maxPeriodDays = 3650

/**
 * The states of a payment: begun here, open at the provider, and how it ended. `refused`: what was paid is not what was asked for. Any of them may
 * follow when the provider says so.
 */
export type CheckoutStatus = 'created' | 'open' | 'paid' | 'expired' | 'refunded' | 'refused'

/** A payment as its provider describes it. */
export interface PaymentStatus {
  /** `refunded`: the payer has the money back, or has disputed the payment. */
  readonly status: 'open' | 'paid' | 'expired' | 'refunded'
  /** The provider's name of the payment itself, where that is not the one that it was begun under. */
  readonly payment_id?: string | undefined
  readonly amount_minor: number
  readonly currency: string
  /** What we have said that it is for; undefined when the provider does not say it. */
  readonly checkout_id: string | undefined
  readonly site_id: string | undefined
}

/** A payment as it was begun here, and what became of it so far. */
export interface BegunCheckout {
  readonly id: string
  readonly site_id: string
  readonly amount_minor: number
  readonly currency: string
  readonly status: CheckoutStatus
}

/** What follows for a payment: its new state, or nothing. */
export type Settlement = Exclude<CheckoutStatus, 'created'> | 'none'

/**
 * What follows from what the provider says. Answers of the provider may arrive in any order, so a state that can only be earlier than the present
 * one changes nothing: a refund is final, and a payment ends with a refund only. Money that arrives late still counts.
 */
export function settlementOf(checkout: BegunCheckout, seen: PaymentStatus): Settlement {
  const { status } = checkout
  if (status === 'refunded') return 'none'
  if (seen.status === 'refunded') return 'refunded'
  if (status === 'paid') return 'none'
  if (seen.status !== 'paid') return status === 'refused' || status === seen.status ? 'none' : seen.status
  if (isSamePayment(checkout, seen)) return 'paid'
  return status === 'refused' ? 'none' : 'refused'
}

const isSamePayment = ({ id, site_id, amount_minor, currency }: BegunCheckout, seen: PaymentStatus) =>
  seen.amount_minor === amount_minor && seen.currency === currency && seen.checkout_id === id && seen.site_id === site_id

const secondMs = 1000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** An unpaid payment holds a seat this long. Who pays later gets in all the same. */
export const seatHoldMs = 15 * minuteMs
/** Nobody may begin to pay after this time, at providers that let us choose it. Stripe takes no less than half an hour. */
export const checkoutPeriodMs = hourMs
/** A payment that the provider has not begun by then is given up: nobody has seen its page. */
export const checkoutPatienceMs = 20 * minuteMs

/**
 * How long to wait before a provider is asked again about a payment; null when that is no longer needed. A callback, or the visitor who comes back,
 * shortens the wait. Refunds are looked for as long as they are usual, because a callback may be lost.
 * @param ageMs how long the payment is in its state
 */
export function lookPauseMs(status: CheckoutStatus, ageMs: number): number | null {
  if (status === 'created' || status === 'open') {
    return ageMs < 25 * hourMs ? Math.min(Math.max(ageMs / 4, 3 * secondMs), 15 * minuteMs) : 6 * hourMs
  }
  if (status !== 'paid') return null
  if (ageMs < 30 * dayMs) return dayMs
  return ageMs < 180 * dayMs ? 7 * dayMs : null
}

/** What a member has paid for. */
export interface PaidAccess {
  readonly paid_at: Date | null
  /** Null for ever. */
  readonly paid_until: Date | null
}

export const nothingPaid: PaidAccess = { paid_at: null, paid_until: null }

/** The end of the access after one more payment: its period follows the present one, when that is not over. Null for ever. */
export function paidUntilAfter({ paid_at, paid_until }: PaidAccess, periodDays: number | null, now: Date): Date | null {
  if (periodDays === null || (paid_at !== null && paid_until === null)) return null
  const from = Math.max(paid_until?.getTime() ?? 0, now.getTime())
  return new Date(from + periodDays * dayMs)
}

/** What a member still has of several payments, in the order in which they were made. */
export function accessOfPayments(
  payments: readonly { readonly paid_at: Date; readonly period_days: number | null }[],
): PaidAccess {
  let access = nothingPaid
  for (const { paid_at, period_days } of payments) {
    access = { paid_at, paid_until: paidUntilAfter(access, period_days, paid_at) }
  }
  return access
}

/** What is paid for, as the page of the provider shows it: at most 128 characters. */
export const paymentDescription = (host: string) => `Access to ${host}`.slice(0, 128)
