import type { Selectable } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import { notFound } from '../../core/errors.ts'
import type { PaymentProviderName } from '../../core/payments.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { findPrice } from '../access/prices.ts'
import type { Tx } from '../transact.ts'

export type MemberRow = Selectable<DB['members']>

export const noSuchMember = () => notFound('the site has no member with this id; get_site_members shows them all')

/** A member, who neither changes nor is removed until the transaction ends. */
export const lockMember = (tx: Tx, siteId: string, by: { readonly id: string } | { readonly email: string }) =>
  tx
    .selectFrom('members')
    .selectAll()
    .where('site_id', '=', siteId)
    .where((eb) => ('id' in by ? eb('id', '=', by.id) : eb('email', '=', by.email)))
    .forUpdate()
    .executeTakeFirst()

/** Whether the address is that of a member in any state. */
export async function isKnown(db: Db, siteId: string, email: string): Promise<boolean> {
  const row = await db
    .selectFrom('members')
    .select('id')
    .where('site_id', '=', siteId)
    .where('email', '=', email)
    .executeTakeFirst()
  return row !== undefined
}

/** To whom the members of a site pay; null at a site whose members do not, or without a price. */
export const findProvider = async (db: Db, siteId: string, mode: AccessMode): Promise<PaymentProviderName | null> =>
  mode === 'paid' ? ((await findPrice(db, siteId))?.provider ?? null) : null
