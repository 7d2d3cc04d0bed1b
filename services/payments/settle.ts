import { takesSeat } from '../../core/members.ts'
import { accessOfPayments, nothingPaid, type PaymentStatus, paidUntilAfter, settlementOf } from '../../core/payments.ts'
import type { BegunPayment } from '../../infra/payments/provider.ts'
import { endVisits } from '../access/visits.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { lockMember, type MemberRow } from '../members/members.ts'
import { countSeats } from '../members/seats.ts'
import { findSettings } from '../members/settings.ts'
import type { Services } from '../services.ts'
import { lockSite } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { type CheckoutRow, listPayments, lockCheckout } from './checkouts.ts'
import { notifyOfFailedBegin, notifyOfPayment } from './owner.ts'

/** The member that pays, or who has been deleted since. */
type Payer = MemberRow | undefined

/** Notes the provider's page of a payment. A payment that has been given up since stays so: nobody sees the page. */
export async function openCheckout({ db, log }: Services, id: string, begun: BegunPayment): Promise<void> {
  const opened = await db
    .updateTable('checkouts')
    .set({ ...begun, status: 'open' })
    .where('id', '=', id)
    .where('status', '=', 'created')
    .returning('site_id')
    .executeTakeFirst()
  if (opened) log.info({ checkout_id: id, site_id: opened.site_id }, 'payment open at its provider')
}

/** Gives up a payment that the provider has not begun, which frees its seat. @param reason for the owner */
export function expireBeforeBegun(
  services: Services,
  { id, site_id, project_id, provider }: CheckoutRow,
  reason: string,
): Promise<void> {
  return transact(services, async (tx) => {
    const expired = await tx
      .updateTable('checkouts')
      .set({ status: 'expired' })
      .where('id', '=', id)
      .where('status', '=', 'created')
      .returning('id')
      .executeTakeFirst()
    if (!expired) return
    await notifyOfFailedBegin(tx, { site_id, project_id, provider, reason }, services.clock())
    tx.afterCommit(() => services.log.warn({ checkout_id: id, site_id }, 'payment not begun'))
  })
}

/** Applies what the provider says of a payment: access is what it says. May be repeated, with answers in any order. */
export function settle(
  services: Services,
  { id, site_id, project_id, member_id }: CheckoutRow,
  seen: PaymentStatus,
): Promise<void> {
  return transact(services, async (tx) => {
    // the order of locks: site, member, payment
    await lockSite(tx, project_id, site_id)
    const payer = member_id === null ? undefined : await lockMember(tx, site_id, { id: member_id })
    const checkout = await lockCheckout(tx, id)
    const { payment_id } = seen
    if (checkout && payment_id !== undefined && payment_id !== checkout.payment_id) {
      await tx.updateTable('checkouts').set({ payment_id }).where('id', '=', id).execute()
    }
    const settlement = checkout ? settlementOf(checkout, seen) : 'none'
    if (!checkout || settlement === 'none') return
    const now = services.clock()
    if (settlement === 'paid') await pay(tx, checkout, payer, now)
    else if (settlement === 'refunded') await refund(tx, checkout, payer, now)
    else {
      await tx.updateTable('checkouts').set({ status: settlement }).where('id', '=', id).execute()
      if (settlement === 'refused') await notifyOfPayment(tx, checkout, 'refused', now)
    }
    tx.afterCommit(() => services.log.info({ checkout_id: id, site_id, member_id, status: settlement }, 'payment settled'))
  })
}

async function pay(tx: Tx, checkout: CheckoutRow, payer: Payer, now: Date): Promise<void> {
  const { id, amount_minor, currency, provider, period_days } = checkout
  const paid_until = paidUntilAfter(payer ?? nothingPaid, period_days, now)
  await tx.updateTable('checkouts').set({ status: 'paid', paid_at: now, paid_until }).where('id', '=', id).execute()
  if (!payer) return await notifyOfPayment(tx, checkout, 'without_member', now)
  const payment = { paid_at: now, paid_minor: amount_minor, paid_currency: currency, paid_provider: provider, paid_until }
  const status = payer.status === 'pending' ? 'active' : payer.status
  const hadSeat = takesSeat(payer, 'paid', now)
  await tx
    .updateTable('members')
    .set({ ...payment, status })
    .where('id', '=', payer.id)
    .execute()
  // what the owner has decided stands
  if (status !== 'active') return await notifyOfPayment(tx, checkout, 'of_blocked', now)
  // the seat was not held any more, and is somebody else's
  if (!hadSeat && (await isOverfull(tx, payer.site_id, now))) await notifyOfPayment(tx, checkout, 'over_seats', now)
}

async function isOverfull(tx: Tx, siteId: string, now: Date): Promise<boolean> {
  const { max_seats } = await findSettings(tx, siteId)
  return max_seats !== null && (await countSeats(tx, siteId, 'paid', now)) > max_seats
}

async function refund(tx: Tx, checkout: CheckoutRow, payer: Payer, now: Date): Promise<void> {
  const { id, site_id, status, paid_at } = checkout
  const refunded = { status: 'refunded', refunded_at: now, paid_at: paid_at ?? now } as const
  await tx.updateTable('checkouts').set(refunded).where('id', '=', id).execute()
  // a payment that never gave access takes none away; what the owner has taken in person since is not refunded with it
  if (status !== 'paid' || !payer || payer.paid_at === null || payer.paid_provider === 'manual') return
  const payments = await listPayments(tx, payer.id, id)
  const last = payments.at(-1)
  const { paid_until } = accessOfPayments(payments)
  const left =
    last && (paid_until === null || paid_until > now)
      ? {
          paid_at: last.paid_at,
          paid_minor: last.amount_minor,
          paid_currency: last.currency,
          paid_provider: last.provider,
          paid_until,
        }
      : undefined
  await tx
    .updateTable('members')
    .set(left ?? { ...withoutPayment, status: blocked(payer) })
    .where('id', '=', payer.id)
    .execute()
  await endVisits(tx, { site_id, modes: ['members', 'paid'] }, [payer.id], now)
  await bumpRoutes(tx, { site_id })
}

const withoutPayment = { ...nothingPaid, paid_minor: null, paid_currency: null, paid_provider: null }

const blocked = ({ status }: MemberRow) => (status === 'rejected' ? 'rejected' : 'blocked')
