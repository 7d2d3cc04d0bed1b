import { conflict, unprocessable } from '../../core/errors.ts'
import { checkoutProviderNames, currenciesOf, type PaymentProviderName } from '../../core/payments.ts'
import type { Config } from '../../infra/config.ts'
import { closeSite } from '../access/locks.ts'
import { type Price, putPrice } from '../access/prices.ts'
import type { Services } from '../services.ts'
import type { SiteRow } from '../sites/sites.ts'

/** The providers that owners can choose. */
const configuredProviders = ({ payments }: Pick<Config, 'payments'>): PaymentProviderName[] => [
  'manual',
  ...checkoutProviderNames.filter((name) => Boolean(payments[name])),
]

/**
 * Closes a site to all but paying members, or changes its price. Members keep what they have paid for.
 * @throws AppError `conflict` for a provider that the operator has not configured; `unprocessable` for a currency that it does not take
 */
export async function setPaidAccess(services: Services, site: Pick<SiteRow, 'id' | 'project_id'>, price: Price): Promise<void> {
  const { provider, currency } = price
  const configured = configuredProviders(services.config)
  if (!configured.includes(provider)) {
    throw conflict(
      `the operator of the platform has not configured ${provider}; use ${configured.join(' or ')}`,
      'provider_missing',
    )
  }
  if (!currenciesOf(provider).includes(currency)) {
    throw unprocessable(`${provider} does not take ${currency}; it takes ${currenciesOf(provider).join(', ')}`)
  }
  await closeSite(services, site, { mode: 'paid', sealed_password: null }, (tx) => putPrice(tx, site, price))
}
