import type { Selectable } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'
import type { Person } from './rates.ts'

export type SubscriberRow = Selectable<DB['subscribers']>

/** When the messenger has said that somebody is a subscriber, and until when it need not be asked again. */
interface Confirmed {
  readonly at: Date
  readonly until: Date
}

/** Remembers a subscriber who logs in, and locks the row. Returns its id, which is the subject of the visits. */
export async function saveSubscriber(
  tx: Tx,
  { site_id, provider, user_id }: Person & { readonly site_id: string },
  { at, until }: Confirmed,
): Promise<string> {
  const confirmed = { last_login_at: at, member_at: at, member_until: until }
  const { id } = await tx
    .insertInto('subscribers')
    .values({ site_id, provider, user_id, created_at: at, ...confirmed })
    .onConflict((found) => found.columns(['site_id', 'provider', 'user_id']).doUpdateSet(confirmed))
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Undefined when the site has no such subscriber. */
export function findSubscriber(db: Db, siteId: string, id: string): Promise<SubscriberRow | undefined> {
  return db.selectFrom('subscribers').selectAll().where('site_id', '=', siteId).where('id', '=', id).executeTakeFirst()
}

/** Remembers what the messenger has said, or that it has said nothing. */
export async function changeSubscriber(
  db: Db,
  id: string,
  change: Pick<SubscriberRow, 'member_until'> & Partial<Pick<SubscriberRow, 'member_at'>>,
): Promise<void> {
  await db.updateTable('subscribers').set(change).where('id', '=', id).execute()
}
