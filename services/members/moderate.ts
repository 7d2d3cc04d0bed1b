import { conflict, unprocessable } from '../../core/errors.ts'
import { isPaidFor, type MemberAction, memberModes, memberTransitions, takesSeat } from '../../core/members.ts'
import { nothingPaid, paidUntilAfter } from '../../core/payments.ts'
import { findLock, type LockRow } from '../access/locks.ts'
import { findPrice, type Price } from '../access/prices.ts'
import { endVisits } from '../access/visits.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { sendEmailToMember } from './emails.ts'
import { lockMember, type MemberRow, noSuchMember } from './members.ts'
import { requireSeat } from './seats.ts'
import type { Site } from './settings.ts'

/** What the owner was paid. */
export interface OwnersPayment {
  readonly amount_minor: number
  readonly currency: string
}

/**
 * Approves, rejects, blocks or unblocks a member. A blocked one is signed out at once. Where members pay the owner, an approval records the
 * payment, and lets an active member whose payment is over in again.
 * @throws AppError `not_found`; `unprocessable` for an approval without the payment; `conflict` when the state of the member does not allow the
 * action, there is no seat left, or the site is in the trash
 */
export function moderateMember(
  services: Services,
  site: Site,
  memberId: string,
  action: MemberAction,
  payment?: OwnersPayment,
): Promise<void> {
  const { id: site_id, project_id } = site
  const now = services.clock()
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const lock = await findLock(tx, site_id)
    const member = await lockMember(tx, site_id, { id: memberId })
    if (!member) throw noSuchMember()
    const price = lock?.mode === 'paid' ? await findPrice(tx, site_id) : undefined
    const paid = action === 'approve' ? paymentOf(price, payment, now) : refusePayment(payment)
    const { from, to } = memberTransitions[action]
    // who pays the owner again is active already
    const renews = paid !== undefined && member.status === 'active' && !isPaidFor(member, now)
    if (!from.includes(member.status) && !renews) throw wrongState(member, action)
    const changed = { ...member, ...paid, status: to }
    await requireRoom(tx, lock, member, changed, now)
    await tx
      .updateTable('members')
      .set({ status: to, ...paid })
      .where('id', '=', memberId)
      .execute()
    if (action === 'block') await endVisitsOf(tx, site_id, memberId, now)
    if (action === 'approve' && !renews) await sendEmailToMember(services, tx, member, 'approved')
    tx.afterCommit(() => services.log.info({ site_id, member_id: memberId, action }, 'member moderated'))
  })
}

const wrongState = ({ status }: MemberRow, action: MemberAction) =>
  conflict(
    `the member is ${status}; ${action} is for members who are ${memberTransitions[action].from.join(' or ')}`,
    'member_status',
  )

/** The columns of a payment that an approval records. @throws AppError */
function paymentOf(price: Price | undefined, payment: OwnersPayment | undefined, now: Date) {
  if (price?.provider !== 'manual') return refusePayment(payment)
  if (!payment) throw unprocessable('members pay you: give amount_minor and currency of what the member has paid')
  const { amount_minor, currency } = payment
  return {
    paid_at: now,
    paid_minor: amount_minor,
    paid_currency: currency,
    paid_provider: 'manual',
    paid_until: paidUntilAfter(nothingPaid, price.period_days, now),
  } as const
}

/** @throws AppError `conflict` */
function refusePayment(payment: OwnersPayment | undefined): undefined {
  if (payment) {
    throw conflict('amount_minor and currency are for approving members of a paid site whose provider is manual; leave them out')
  }
}

/** @throws AppError `conflict` when the change lets a member in who had no seat before, and there is none left */
async function requireRoom(tx: Tx, lock: LockRow | undefined, before: MemberRow, after: MemberRow, now: Date): Promise<void> {
  const mode = lock?.mode ?? 'members'
  if (takesSeat(after, mode, now) && !takesSeat(before, mode, now)) await requireSeat(tx, after.site_id, mode, now)
}

/** Ends the visits of a member, under the lock of the site. */
async function endVisitsOf(tx: Tx, site_id: string, memberId: string, now: Date): Promise<void> {
  await endVisits(tx, { site_id, modes: memberModes }, [memberId], now)
  await bumpRoutes(tx, { site_id })
}

/**
 * Deletes a member with everything that is kept about them but their payments, signs them out, and informs them in the name of the site.
 * @returns the member as it was
 * @throws AppError `not_found`; `conflict` when the site is in the trash
 */
export function deleteMember(services: Services, site: Site, memberId: string): Promise<MemberRow> {
  const { id: site_id, project_id } = site
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const member = await tx
      .deleteFrom('members')
      .where('site_id', '=', site_id)
      .where('id', '=', memberId)
      .returningAll()
      .executeTakeFirst()
    if (!member) throw noSuchMember()
    await tx.deleteFrom('access_codes').where('site_id', '=', site_id).where('email', '=', member.email).execute()
    await tx
      .deleteFrom('mails')
      .where('project_id', '=', project_id)
      .where('kind', 'in', ['membership', 'access_code'])
      .where('about', '=', site_id)
      .where('recipient', '=', member.email)
      .execute()
    await endVisitsOf(tx, site_id, memberId, services.clock())
    await sendEmailToMember(services, tx, member, 'deleted')
    tx.afterCommit(() => services.log.info({ site_id, member_id: memberId }, 'member deleted'))
    return member
  })
}
