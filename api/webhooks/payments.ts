import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { invalid, notFound } from '../../core/errors.ts'
import { checkoutProviderNames } from '../../core/payments.ts'
import { type NamedPayment, PaymentError, type PaymentProvider } from '../../infra/payments/provider.ts'
import { takeCallback } from '../../services/payments/callbacks.ts'
import { providerOf } from '../../services/payments/providers.ts'
import { createWrongAttempts } from '../authenticate.ts'
import { receiveBytes } from '../body.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'

const maxCallbackBytes = 256 * 1024
/** Callbacks of one address that are not signed as they should be; further ones get 429. */
const wrongPerMinute = 30

/**
 * The webhooks that payment providers call. A callback only names a payment, about which the provider is then asked; the answer is the same whatever
 * payment it names.
 */
export function paymentHooks(deps: Deps): Router {
  const countWrong = createWrongAttempts(
    wrongPerMinute,
    'too many callbacks that are not signed as they should be; wait a minute',
  )
  const router = new Router({ strict: true, sensitive: true })
  for (const name of checkoutProviderNames) {
    router.post(`/hooks/payments/${name}`, async (koa) => {
      const address = { kind: 'address', id: clientNetwork(koa.req) } as const
      using caller = deps.admission.enter(address)
      const services = { ...deps, db: deps.admission.databaseOf(address) }
      const provider = providerOf(services, name)
      if (!provider) throw notFound('the operator of the platform has not configured this payment provider')
      const raw = await receiveBytes(koa.req, {
        maxBytes: maxCallbackBytes,
        hold: (bytes) => caller.hold('memory', bytes),
        waitForSlot: () => caller.waitForChunkSlot(),
      })
      const named = read(provider, koa, raw)
      if (!named) {
        countWrong(address.id)
        throw invalid('the callback is not signed as it should be, or cannot be read')
      }
      await takeCallback(services, name, named)
      koa.body = { ok: true }
    })
  }
  return router
}

/** Undefined for a forged callback. */
function read(provider: PaymentProvider, koa: Koa, raw: Buffer): NamedPayment | undefined {
  try {
    return provider.parseWebhook(koa.req.headers, raw)
  } catch (error) {
    if (error instanceof PaymentError) return undefined
    throw error
  }
}
