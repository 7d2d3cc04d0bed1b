import { secondsUntil, tooManyRequests } from '../../core/errors.ts'
import type { CheckoutProviderName } from '../../core/payments.ts'
import type { NamedPayment } from '../../infra/payments/provider.ts'
import { checkoutSignal } from '../../workflows/contract/payments.ts'
import { accessRate, findFreeAt, takeRate } from '../rates.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { findNamedCheckout } from './checkouts.ts'

/** Callbacks about one payment; a provider repeats those that are refused. */
const callbackRate = (checkoutId: string) => accessRate(`callbacks:${checkoutId}`, 20, 60_000)

/**
 * Has a provider asked about the payment that a callback names: whatever else the callback says is not believed. One that names none of ours changes
 * nothing.
 * @throws AppError `too_many_requests`
 */
export async function takeCallback(services: Services, provider: CheckoutProviderName, named: NamedPayment): Promise<void> {
  const checkout = await findNamedCheckout(services.db, provider, named)
  if (!checkout) return
  const { id: checkout_id, site_id, project_id } = checkout
  const now = services.clock()
  const rate = callbackRate(checkout_id)
  await transact(services, async (tx) => {
    if (!(await takeRate(tx, rate, now))) {
      const freeAt = await findFreeAt(tx, rate, now)
      throw tooManyRequests('there were too many callbacks about this payment', secondsUntil(freeAt, now))
    }
    await signalWorkflows(tx, [checkoutSignal({ checkout_id, site_id, project_id })])
    tx.afterCommit(() => services.log.info({ checkout_id, site_id, provider }, 'payment provider called'))
  })
}
