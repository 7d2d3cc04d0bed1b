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
