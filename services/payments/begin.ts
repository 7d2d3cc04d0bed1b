import { unavailable } from '../../core/errors.ts'
import { mailboxOf } from '../../core/mailboxes.ts'
import { admissionOf } from '../../core/members.ts'
import { type CheckoutProviderName, checkoutProviderNames, seatHoldMs } from '../../core/payments.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { GateState } from '../../infra/gate/state.ts'
import { checkoutStart } from '../../workflows/contract/payments.ts'
import { findLock } from '../access/locks.ts'
import { isOver, type Waiting } from '../access/login.ts'
import { findPrice, type Price } from '../access/prices.ts'
import { lockMember, type MemberRow } from '../members/members.ts'
import type { MemberSite } from '../members/register.ts'
import { hasSeat } from '../members/seats.ts'
import { findSettings } from '../members/settings.ts'
import { accessRate, networkRates, takeRates } from '../rates.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { providerOf } from './providers.ts'

const hourMs = 3_600_000

const mailboxHash = (email: string) => sha256Hex(mailboxOf(email))

/** How often payments may be begun. The site has no rate, because strangers could use it up. */
const payRates = ({ email, network }: PayingVisitor) => [
  ...networkRates('pay:network', network, { limit: 30, periodMs: hourMs }, { customer: 3, organisation: 10 }),
  accessRate(`pay:mailbox:${mailboxHash(email)}`, 10, hourMs),
]

/** How often a seat is held for somebody who has not paid: others than those who pay cannot hold all seats of a site. */
const holdRates = (site_id: string, { email, network }: PayingVisitor) => [
  ...networkRates(`holds:${site_id}`, network, { limit: 4, periodMs: hourMs }, { customer: 2, organisation: 4 }),
  accessRate(`holds:${site_id}:${mailboxHash(email)}`, 2, hourMs),
]

/** A visitor with a confirmed address who wants to pay. */
export interface PayingVisitor {
  readonly email: string
  /** Of the pages of the site, as the visitor sees them. */
  readonly origin: string
  /** Where the visitor wants to go afterwards: a path. */
  readonly to: string
  readonly network: string
}

/** `begun`: the page of the payment comes next. */
export type Begun =
  | { readonly kind: 'begun' }
  | { readonly kind: 'ended' | 'changed' }
  | { readonly kind: 'page'; readonly state: GateState }
  | Waiting

/**
 * Begins a payment for a member, or continues with one that is under way at the same price. It needs a free seat, and holds it for a while, so seats
 * are counted under the lock of the site.
 * @throws AppError `unavailable` when the operator has taken the provider away
 */
export async function beginPayment(services: Services, site: MemberSite, visitor: PayingVisitor): Promise<Begun> {
  const now = services.clock()
  const { site_id, project_id, lock } = site
  if (isOver(lock, now)) return { kind: 'ended' }
  const until = await transact(services, (tx) => takeRates(tx, payRates(visitor), now))
  if (until) return { kind: 'wait', until }
  return await transact(services, async (tx): Promise<Begun> => {
    await lockLiveSite(tx, project_id, site_id)
    const current = await findLock(tx, site_id)
    if (current?.mode !== 'paid' || current.epoch !== lock.epoch) return { kind: 'changed' }
    const price = await findPrice(tx, site_id)
    const member = await lockMember(tx, site_id, { email: visitor.email })
    if (!member || !price) return { kind: 'page', state: { kind: 'paid' } }
    const admission = admissionOf(member, 'paid', price.provider, now)
    if (admission === 'pay_owner') return { kind: 'page', state: { kind: 'pay_owner', email: member.email } }
    if (admission !== 'in' && admission !== 'pay') return { kind: 'page', state: { kind: admission } }
    // there is nothing left to buy
    if (admission === 'in' && member.paid_until === null) return { kind: 'begun' }
    const provider = checkoutProviderNames.find((name) => name === price.provider)
    if (!provider) return { kind: 'page', state: { kind: 'pay_owner', email: member.email } }
    if (!providerOf(services, provider)) throw unavailable('the payment provider of the site is not configured any more')
    const asked = { ...price, provider }
    const seat_held_until = admission === 'pay' ? await holdSeat(tx, member, visitor, now) : null
    if (seat_held_until === 'full') return { kind: 'page', state: { kind: 'seats' } }
    if (await continueCheckout(tx, member, asked, { return_path: visitor.to, seat_held_until })) return { kind: 'begun' }
    await insertCheckout(tx, services, member, { ...asked, seat_held_until }, visitor)
    return { kind: 'begun' }
  })
}

/** Until when a seat is held for a member: null when the member has had enough of that, or the site has no limit. */
async function holdSeat(tx: Tx, { id, site_id }: MemberRow, visitor: PayingVisitor, now: Date): Promise<Date | null | 'full'> {
  const { max_seats } = await findSettings(tx, site_id)
  if (max_seats === null) return null
  const held = await openCheckout(tx, id).select('seat_held_until').where('seat_held_until', '>', now).executeTakeFirst()
  if (held) return held.seat_held_until
  if (!(await hasSeat(tx, site_id, 'paid', max_seats, now))) return 'full'
  const isRefused = (await takeRates(tx, holdRates(site_id, visitor), now)) !== undefined
  return isRefused ? null : new Date(now.getTime() + seatHoldMs)
}

type CheckoutPrice = Price & { readonly provider: CheckoutProviderName }
type Held = { readonly seat_held_until: Date | null }

/** The newest payment of a member that is under way. */
const openCheckout = (tx: Tx, memberId: string) =>
  tx
    .selectFrom('checkouts')
    .select('id')
    .where('member_id', '=', memberId)
    .where('status', 'in', ['created', 'open'])
    .orderBy('created_at', 'desc')
    .limit(1)

/** Continues with a payment of the member that is under way, at the same price. False when there is none. */
async function continueCheckout(
  tx: Tx,
  { id }: MemberRow,
  price: CheckoutPrice,
  change: Held & { readonly return_path: string },
): Promise<boolean> {
  const { amount_minor, currency, period_days, provider } = price
  const row = await openCheckout(tx, id)
    .where('amount_minor', '=', amount_minor)
    .where('currency', '=', currency)
    .where('period_days', 'is not distinct from', period_days)
    .where('provider', '=', provider)
    .executeTakeFirst()
  if (!row) return false
  await tx
    .updateTable('checkouts')
    .set({ ...change, returned_at: null })
    .where('id', '=', row.id)
    .execute()
  return true
}

async function insertCheckout(
  tx: Tx,
  { clock, log }: Services,
  { id: member_id, site_id, project_id }: MemberRow,
  price: CheckoutPrice & Held,
  { origin, to }: PayingVisitor,
): Promise<void> {
  const now = clock()
  const { id } = await tx
    .insertInto('checkouts')
    .values({ site_id, project_id, member_id, ...price, origin, return_path: to, created_at: now, next_look_at: now })
    .returning('id')
    .executeTakeFirstOrThrow()
  await startWorkflow(tx, checkoutStart({ checkout_id: id, site_id, project_id }))
  tx.afterCommit(() => log.info({ checkout_id: id, site_id, member_id }, 'payment begun'))
}
