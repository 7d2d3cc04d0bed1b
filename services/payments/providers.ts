import type { CheckoutProviderName } from '../../core/payments.ts'
import type { PaymentProvider } from '../../infra/payments/provider.ts'
import { stripeProvider } from '../../infra/payments/stripe.ts'
import { yookassaProvider } from '../../infra/payments/yookassa.ts'
import type { Services } from '../services.ts'
import { testProvider } from './test-payments.ts'

/** Undefined for a provider that the operator has not configured, or not any more. */
export function providerOf(
  services: Pick<Services, 'config' | 'db' | 'clock'>,
  name: CheckoutProviderName,
): PaymentProvider | undefined {
  const { payments, urls } = services.config
  if (name === 'yookassa') return payments.yookassa && yookassaProvider(payments.yookassa)
  if (name === 'stripe') return payments.stripe && stripeProvider({ ...payments.stripe, now: services.clock })
  return payments.test ? testProvider(services, urls.base) : undefined
}
