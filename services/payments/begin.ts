import { unavailable } from '../../core/errors.ts'
import { admissionOf } from '../../core/members.ts'
import { type CheckoutProviderName, checkoutProviderNames } from '../../core/payments.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { GateState } from '../../infra/gate/state.ts'
import { checkoutStart } from '../../workflows/contract/payments.ts'
import { findLock } from '../access/locks.ts'
import { isOver, type Waiting } from '../access/login.ts'
import { takeRates } from '../access/login-rates.ts'
import { findPrice, type Price } from '../access/prices.ts'
import { lockMember, type MemberRow } from '../members/members.ts'
import type { MemberSite } from '../members/register.ts'
import { hasSeat } from '../members/seats.ts'
import { findSettings } from '../members/settings.ts'
import { accessRate } from '../rates.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { providerOf } from './providers.ts'

const hourMs = 3_600_000

/** How often payments may be begun: an address is named by its hash. */
const payRates = (site_id: string, email: string, network: string) => [
  accessRate(`pay:network:${network}`, 30, hourMs),
  accessRate(`pay:address:${sha256Hex(email)}`, 10, hourMs),
  accessRate(`pay:site:${site_id}`, 300, hourMs),
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
 * Begins a payment for a member, or continues with one that is under way at the same price. An open payment holds a seat, so seats are counted under
 * the lock of the site.
 * @throws AppError `unavailable` when the operator has taken the provider away
 */
export async function beginPayment(services: Services, site: MemberSite, visitor: PayingVisitor): Promise<Begun> {
  const now = services.clock()
  const { site_id, project_id, lock } = site
  if (isOver(lock, now)) return { kind: 'ended' }
  const taken = await takeRates(services, payRates(site_id, visitor.email, visitor.network), now)
  if ('until' in taken) return { kind: 'wait', until: taken.until }
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
    if (await continueCheckout(tx, member, asked, visitor.to)) return { kind: 'begun' }
    const { max_seats } = await findSettings(tx, site_id)
    const needsSeat = admission === 'pay' && (await openCheckout(tx, member.id).executeTakeFirst()) === undefined
    if (needsSeat && !(await hasSeat(tx, site_id, 'paid', max_seats, now))) return { kind: 'page', state: { kind: 'seats' } }
    await insertCheckout(tx, services, member, asked, visitor)
    return { kind: 'begun' }
  })
}

type CheckoutPrice = Price & { readonly provider: CheckoutProviderName }

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
async function continueCheckout(tx: Tx, { id }: MemberRow, price: CheckoutPrice, return_path: string): Promise<boolean> {
  const { amount_minor, currency, period_days, provider } = price
  const row = await openCheckout(tx, id)
    .where('amount_minor', '=', amount_minor)
    .where('currency', '=', currency)
    .where('period_days', 'is not distinct from', period_days)
    .where('provider', '=', provider)
    .executeTakeFirst()
  if (!row) return false
  await tx.updateTable('checkouts').set({ return_path, returned_at: null }).where('id', '=', row.id).execute()
  return true
}

async function insertCheckout(
  tx: Tx,
  { clock, log }: Services,
  { id: member_id, site_id, project_id }: MemberRow,
  price: CheckoutPrice,
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
