import { lookAtCheckout } from '../../services/payments/look.ts'
import type { Services } from '../../services/services.ts'
import type { PaymentActivities } from '../contract/payments.ts'

/** The steps of a payment. */
export const createPaymentActivities = (services: Services): PaymentActivities => ({
  lookAtCheckout: ({ checkout_id }) => lookAtCheckout(services, checkout_id),
})
