import type { ExpressionBuilder } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import { conflict } from '../../core/errors.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'
import { findSettings } from './settings.ts'

/**
 * How many seats of a site are taken: of its members who are let in, and where they pay, of those for whose payment one is held. Exact under the lock of
 * the site.
 */
export async function countSeats(db: Db, siteId: string, mode: AccessMode | undefined, now: Date): Promise<number> {
  const { count } = await db
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', siteId)
    .where((eb) => {
      const isActive = eb('status', '=', 'active')
      if (mode !== 'paid') return isActive
      return eb.or([
        eb.and([isActive, ...isPaidFor(eb, now)]),
        eb.and([eb('status', 'in', ['active', 'pending']), isHeld(eb, now)]),
      ])
    })
    .executeTakeFirstOrThrow()
  return count
}

type Members = ExpressionBuilder<DB, 'members'>

const isPaidFor = (eb: Members, now: Date) => [
  eb('paid_at', 'is not', null),
  eb.or([eb('paid_until', 'is', null), eb('paid_until', '>', now)]),
]

/** Whether a payment of the member that is under way holds a seat. */
const isHeld = (eb: Members, now: Date) =>
  eb.exists(
    eb
      .selectFrom('checkouts')
      .select('checkouts.id')
      .whereRef('checkouts.member_id', '=', 'members.id')
      .where('checkouts.status', 'in', ['created', 'open'])
      .where('checkouts.seat_held_until', '>', now),
  )

/** Whether a site has a seat left. */
export const hasSeat = async (db: Db, siteId: string, mode: AccessMode | undefined, maxSeats: number | null, now: Date) =>
  maxSeats === null || (await countSeats(db, siteId, mode, now)) < maxSeats

/** @throws AppError `conflict` when the site has no seat left; under the lock of the site */
export async function requireSeat(tx: Tx, siteId: string, mode: AccessMode, now: Date): Promise<void> {
  const { max_seats } = await findSettings(tx, siteId)
  if (await hasSeat(tx, siteId, mode, max_seats, now)) return
  throw conflict(`all ${max_seats} seats of the site are taken: raise max_seats, or block a member`, 'seats_taken')
}
