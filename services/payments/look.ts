import { checkoutPatienceMs, checkoutPeriodMs, lookPauseMs, paymentDescription } from '../../core/payments.ts'
import { gatePaths } from '../../core/visits.ts'
import { PaymentError, type PaymentProvider } from '../../infra/payments/provider.ts'
import type { CheckoutStep } from '../../workflows/contract/payments.ts'
import type { Services } from '../services.ts'
import { type CheckoutRow, findCheckout, setNextLook } from './checkouts.ts'
import { providerOf } from './providers.ts'
import { expireBeforeBegun, openCheckout, settle } from './settle.ts'

const hourMs = 3_600_000
/** How long to wait before a provider that has failed is asked again about a payment that has ended. */
const failurePauseMs = 2 * 60_000
/** A provider that still does not know a payment after this time never will. */
const unknownPeriodMs = 25 * hourMs

/**
 * Begins a payment at its provider, or asks how it goes, and applies the answer. The row decides what is next, so this may be repeated, also at the
 * same time. A provider that fails is asked again later.
 */
export async function lookAtCheckout(services: Services, id: string): Promise<CheckoutStep> {
  const checkout = await findCheckout(services.db, id)
  if (!checkout) return { state: 'ended', outcome: 'gone' }
  const failure = await look(services, checkout)
  return await nextStep(services, id, failure)
}

/** @returns why the provider could not be asked, or undefined */
async function look(services: Services, checkout: CheckoutRow): Promise<string | undefined> {
  const { provider: name, status, id, site_id } = checkout
  const provider = providerOf(services, name)
  try {
    if (!provider) throw new PaymentError('unavailable', `${name} is not configured`)
    if (status === 'created') await begin(services, provider, checkout)
    else await read(services, provider, checkout)
    return undefined
  } catch (error) {
    if (!(error instanceof PaymentError)) throw error
    services.log.warn({ checkout_id: id, site_id, provider: name, reason: error.message }, 'payment provider failed')
    if (status === 'created' && (error.kind === 'refused' || isGivenUp(services, checkout))) {
      await expireBeforeBegun(services, checkout, error.message)
      return undefined
    }
    // what has ended need not wait for a provider that is gone
    return provider || status === 'created' || status === 'open' ? error.message : undefined
  }
}

const ageOf = ({ clock }: Services, { created_at }: CheckoutRow) => clock().getTime() - created_at.getTime()
const isGivenUp = (services: Services, checkout: CheckoutRow) => ageOf(services, checkout) > checkoutPatienceMs

async function begin(services: Services, provider: PaymentProvider, checkout: CheckoutRow): Promise<void> {
  if (isGivenUp(services, checkout)) throw new PaymentError('unavailable', 'the payment was begun too long ago')
  const { id, site_id, amount_minor, currency, origin, created_at } = checkout
  const begun = await provider.createCheckout({
    amount_minor,
    currency,
    description: paymentDescription(new URL(origin).host),
    return_url: `${origin}${gatePaths.payment}?back`,
    metadata: { checkout_id: id, site_id },
    idempotency_key: id,
    expires_at: new Date(created_at.getTime() + checkoutPeriodMs),
  })
  await openCheckout(services, id, begun)
}

async function read(services: Services, provider: PaymentProvider, checkout: CheckoutRow): Promise<void> {
  const { external_id, id, site_id, amount_minor, currency } = checkout
  // it never had a page
  if (external_id === null) return
  const seen = await provider.getStatus(external_id)
  if (seen) return await settle(services, checkout, seen)
  if (ageOf(services, checkout) < unknownPeriodMs) throw new PaymentError('unavailable', 'the provider does not know the payment')
  await settle(services, checkout, { status: 'expired', amount_minor, currency, checkout_id: id, site_id })
}

async function nextStep(services: Services, id: string, failure: string | undefined): Promise<CheckoutStep> {
  const { db, clock } = services
  const checkout = await findCheckout(db, id)
  if (!checkout) return { state: 'ended', outcome: 'gone' }
  const { status, created_at, paid_at } = checkout
  const now = clock().getTime()
  const pauseMs = lookPauseMs(status, now - (status === 'paid' && paid_at ? paid_at : created_at).getTime())
  if (status !== 'created' && status !== 'open' && failure === undefined) {
    await setNextLook(db, id, pauseMs === null ? null : new Date(now + pauseMs))
    return { state: 'ended', outcome: status }
  }
  const wait_ms = status === 'created' || status === 'open' ? (pauseMs ?? failurePauseMs) : failurePauseMs
  await setNextLook(db, id, new Date(now + wait_ms))
  const message = failure ?? (status === 'created' ? 'the payment is begun' : 'waits for the visitor to pay')
  return { state: 'waiting', begun: status !== 'created', message, wait_ms }
}
