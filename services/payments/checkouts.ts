import { type Selectable, sql } from 'kysely'
import type { CheckoutProviderName } from '../../core/payments.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { NamedPayment } from '../../infra/payments/provider.ts'
import type { Tx } from '../transact.ts'

export type CheckoutRow = Selectable<DB['checkouts']>

/** Undefined when its site was removed. */
export function findCheckout(db: Db, id: string): Promise<CheckoutRow | undefined> {
  return db.selectFrom('checkouts').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The payment that a callback names. */
export async function findNamedCheckout(
  db: Db,
  provider: CheckoutProviderName,
  { external_id, checkout_id, payment_id }: NamedPayment,
): Promise<CheckoutRow | undefined> {
  const all = db.selectFrom('checkouts').selectAll().where('provider', '=', provider)
  if (external_id !== undefined) return await all.where('external_id', '=', external_id).executeTakeFirst()
  if (payment_id !== undefined) return await all.where('payment_id', '=', payment_id).executeTakeFirst()
  return checkout_id !== undefined && isUuid(checkout_id) ? await all.where('id', '=', checkout_id).executeTakeFirst() : undefined
}

/** The payment that the member with an address has begun last. */
export function findNewestCheckoutOf(db: Db, siteId: string, email: string): Promise<CheckoutRow | undefined> {
  return db
    .selectFrom('checkouts')
    .innerJoin('members', 'members.id', 'checkouts.member_id')
    .selectAll('checkouts')
    .where('members.site_id', '=', siteId)
    .where('members.email', '=', email)
    .orderBy('checkouts.created_at', 'desc')
    .orderBy('checkouts.id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** A payment under its lock, which is taken after those of its site and its member. */
export const lockCheckout = (tx: Tx, id: string): Promise<CheckoutRow | undefined> =>
  tx.selectFrom('checkouts').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()

/** The payments of a member that count, in the order in which they were made, without one of them. */
export async function listPayments(tx: Tx, memberId: string, besides: string) {
  const rows = await tx
    .selectFrom('checkouts')
    .select(['id', 'paid_at', 'amount_minor', 'currency', 'period_days', 'provider'])
    .where('member_id', '=', memberId)
    .where('status', '=', 'paid')
    .where('id', '<>', besides)
    .orderBy('paid_at')
    .orderBy('id')
    .execute()
  return rows.map((row) => ({ ...row, paid_at: row.paid_at ?? new Date(0) }))
}

/** Notes when the provider is to be asked again at the latest; null when it need not be. */
export async function setNextLook(db: Db, id: string, next_look_at: Date | null): Promise<void> {
  await db
    .updateTable('checkouts')
    .set({ next_look_at })
    .where('id', '=', id)
    .where(sql<boolean>`next_look_at is distinct from ${next_look_at}`)
    .execute()
}
