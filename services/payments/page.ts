import { takesSeat } from '../../core/members.ts'
import type { GateState } from '../../infra/gate/state.ts'
import { checkoutSignal } from '../../workflows/contract/payments.ts'
import { enter, type LoginServices, type MemberOutcome } from '../members/login.ts'
import type { MemberSite } from '../members/register.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { type CheckoutRow, findNewestCheckoutOf } from './checkouts.ts'

/** How long the page waits for the provider after the visitor has come back, before it offers to pay again. */
const returnPatienceMs = 20_000
/** How long the page says that a payment was not completed. */
const failureShownMs = 2 * 3_600_000

/** What the page of a payment leads to, and where the visitor wants to go then. */
export interface ShownPayment {
  readonly outcome: MemberOutcome
  readonly to: string | undefined
}

/**
 * How the payment of a visitor with a confirmed address goes; once it is paid, the visitor is let in.
 * @param isBack whether the visitor comes from the provider's page, which makes the provider be asked at once
 */
export async function showPayment(
  services: LoginServices,
  site: MemberSite,
  email: string,
  isBack: boolean,
): Promise<ShownPayment> {
  const checkout = await findNewestCheckoutOf(services.db, site.site_id, email)
  const to = checkout?.return_path
  const returned_at = checkout?.returned_at ?? (isBack && checkout ? await noteReturn(services, checkout) : null)
  const state = checkout && stateOf({ ...checkout, returned_at }, services.clock())
  // who is inside and pays for the next period is led to the provider as well
  if (state?.kind === 'paying' && returned_at === null && (await isInside(services, site.site_id, email))) {
    return { outcome: { kind: 'page', state }, to }
  }
  const outcome = await enter(services, site, email)
  const isAsked = outcome.kind === 'page' && outcome.state.kind === 'pay'
  return { outcome: isAsked && state ? { kind: 'page', state } : outcome, to }
}

async function isInside({ db, clock }: Services, siteId: string, email: string): Promise<boolean> {
  const member = await db
    .selectFrom('members')
    .select(['status', 'paid_at', 'paid_until'])
    .where('site_id', '=', siteId)
    .where('email', '=', email)
    .executeTakeFirst()
  return member !== undefined && takesSeat(member, 'paid', clock())
}

/** The page of a payment; undefined for the one with the price. */
function stateOf({ status, checkout_url, created_at, returned_at }: CheckoutRow, now: Date): GateState | undefined {
  if (status === 'created') return { kind: 'paying', url: null }
  if (status === 'open') {
    if (returned_at === null) return { kind: 'paying', url: checkout_url }
    return now.getTime() - returned_at.getTime() < returnPatienceMs ? { kind: 'paying', url: null } : undefined
  }
  const isNew = now.getTime() - created_at.getTime() < failureShownMs
  return isNew && (status === 'expired' || status === 'refused') ? { kind: 'unpaid' } : undefined
}

/** Notes that the visitor has come back, and has the provider asked. */
function noteReturn(services: Services, { id, site_id, project_id }: CheckoutRow): Promise<Date | null> {
  return transact(services, async (tx) => {
    const returned_at = services.clock()
    const noted = await tx
      .updateTable('checkouts')
      .set({ returned_at })
      .where('id', '=', id)
      .where('status', '=', 'open')
      .where('returned_at', 'is', null)
      .returning('id')
      .executeTakeFirst()
    if (!noted) return null
    await signalWorkflows(tx, [checkoutSignal({ checkout_id: id, site_id, project_id })])
    return returned_at
  })
}
