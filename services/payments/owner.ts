import type { CheckoutProviderName } from '../../core/payments.ts'
import { insertNotification } from '../notifications/notifications.ts'
import { takeAllowance } from '../rates.ts'
import type { Tx } from '../transact.ts'
import type { CheckoutRow } from './checkouts.ts'

/** Why the owner has to do something about a payment. */
type Problem = 'refused' | 'without_member' | 'of_blocked' | 'over_seats'

const problems: Readonly<Record<Problem, { readonly title: string; readonly message: string }>> = {
  refused: {
    title: 'A payment is not what was asked for',
    message:
      'Its amount, its currency or its purpose differ from the price of the site, so it gave no access. Look at it, and refund it.',
  },
  without_member: {
    title: 'A payment of a deleted member arrived',
    message: 'Its member was deleted before the payment was complete, so it gave no access. Refund it.',
  },
  of_blocked: {
    title: 'A payment of a member without access arrived',
    message:
      'Its member was blocked or rejected before the payment was complete, and still is. Refund the payment, or let the member in with moderate_site_member.',
  },
  over_seats: {
    title: 'A member has paid when all seats were taken',
    message:
      'It was paid more than 15 minutes after it was begun, when others had taken the seats. The member is in, so the site has more members than seats. Leave it so, raise max_seats, or refund the payment, which takes the access away.',
  },
}

/** Notifies the owner of a site about a payment, in the transaction of its cause. */
export async function notifyOfPayment(tx: Tx, checkout: CheckoutRow, problem: Problem, now: Date): Promise<void> {
  const { project_id, site_id, provider, external_id } = checkout
  const { title, message } = problems[problem]
  const named = `The payment ${external_id ?? checkout.id} at ${provider}: ${message}`
  await insertNotification(tx, project_id, { kind: 'payment_problem', title, message: named, site_id }, now)
}

const hourMs = 3_600_000

interface FailedBegin {
  readonly project_id: string
  readonly site_id: string
  readonly provider: CheckoutProviderName
  readonly reason: string
}

/** Notifies the owner of a site that visitors cannot begin to pay, at most once an hour: visitors cause it. */
export async function notifyOfFailedBegin(
  tx: Tx,
  { project_id, site_id, provider, reason }: FailedBegin,
  now: Date,
): Promise<void> {
  const allowance = { project_id, kind: `payments_failing:${site_id}`, limit: 1, periodMs: hourMs }
  if (await takeAllowance(tx, allowance, now)) return
  const message = `A visitor wanted to pay, but ${provider} did not begin the payment: ${reason}. If this goes on, change the price, or ask the operator of the platform.`
  await insertNotification(
    tx,
    project_id,
    { kind: 'payment_problem', title: 'A payment could not be begun', message, site_id },
    now,
  )
}
