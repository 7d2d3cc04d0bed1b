import type { Selectable } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'

/** What the members of a site pay, and through whom. */
export type Price = Omit<Selectable<DB['access_prices']>, 'site_id' | 'project_id'>

/** Undefined for a site that never had a price. */
export function findPrice(db: Db, siteId: string): Promise<Price | undefined> {
  return db
    .selectFrom('access_prices')
    .select(['amount_minor', 'currency', 'period_days', 'provider'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
}

/** Under the lock of the site; the caller bumps the route. Those who have paid another price keep what they have paid for. */
export async function putPrice(
  tx: Tx,
  { id: site_id, project_id }: { readonly id: string; readonly project_id: string },
  price: Price,
): Promise<void> {
  await tx
    .insertInto('access_prices')
    .values({ site_id, project_id, ...price })
    .onConflict((conflict) => conflict.column('site_id').doUpdateSet(price))
    .execute()
}
