import type { AccessMode } from '../../core/access.ts'
import { conflict } from '../../core/errors.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'
import { findSettings } from './settings.ts'

/** How many seats of a site are taken: of its members who are let in. Exact under the lock of the site. */
export async function countSeats(db: Db, siteId: string, mode: AccessMode | undefined, now: Date): Promise<number> {
  const { count } = await db
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', siteId)
    .where('status', '=', 'active')
    .$if(mode === 'paid', (query) =>
      query.where('paid_at', 'is not', null).where((eb) => eb.or([eb('paid_until', 'is', null), eb('paid_until', '>', now)])),
    )
    .executeTakeFirstOrThrow()
  return count
}

/** Whether a site has a seat left. */
export const hasSeat = async (db: Db, siteId: string, mode: AccessMode | undefined, maxSeats: number | null, now: Date) =>
  maxSeats === null || (await countSeats(db, siteId, mode, now)) < maxSeats

/** @throws AppError `conflict` when the site has no seat left; under the lock of the site */
export async function requireSeat(tx: Tx, siteId: string, mode: AccessMode, now: Date): Promise<void> {
  const { max_seats } = await findSettings(tx, siteId)
  if (await hasSeat(tx, siteId, mode, max_seats, now)) return
  throw conflict(`all ${max_seats} seats of the site are taken: raise max_seats, or block a member`, 'seats_taken')
}
