import { type Selectable, sql } from 'kysely'
import { type AccessMode, type ExpiryChange, expiryAfter } from '../../core/access.ts'
import { conflict, notFound, unprocessable } from '../../core/errors.ts'
import { hasMembers } from '../../core/members.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockLiveSite, type SiteRow } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { forgetGenerations } from './visits.ts'

export type LockRow = Selectable<DB['access_locks']>
type Site = Pick<SiteRow, 'id' | 'project_id'>

/** What closes the site; undefined while it is open to everybody. */
export function findLock(db: Db, siteId: string): Promise<LockRow | undefined> {
  return db.selectFrom('access_locks').selectAll().where('site_id', '=', siteId).executeTakeFirst()
}

/**
 * Takes the lock of the site's row, under which the access to a site changes, and reads what closes it. Logins do not take it: all they change
 * is the number of opens, and they lock the row of an address before that of `access_locks`.
 * @throws AppError `not_found`; `conflict` when the site is in the trash
 */
async function lockAccess(tx: Tx, { id, project_id }: Site): Promise<LockRow | undefined> {
  await lockLiveSite(tx, project_id, id)
  return await findLock(tx, id)
}

export const isOpen = () =>
  notFound('the site is open to everybody: close it first, such as with set_site_password or set_site_email_access')

/** The epoch of a lock that signs out everybody. */
const newEpoch = sql<string>`gen_random_uuid()`

/** What closes a site from now on. */
export type Closing =
  | { readonly mode: 'password'; readonly sealed_password: string }
  | { readonly mode: Exclude<AccessMode, 'password'>; readonly sealed_password: null }

/**
 * Closes a site, or closes it in another way, and signs out everybody. Its end stays, and so does its limit of opens, unless members
 * take seats instead.
 * @param also changes what the login page shows in this mode, in the same transaction
 */
export function closeSite(services: Services, site: Site, closing: Closing, also?: (tx: Tx) => Promise<void>): Promise<void> {
  const { id: site_id, project_id } = site
  return transact(services, async (tx) => {
    const lock = await lockAccess(tx, site)
    await also?.(tx)
    // those who have logged in stay
    if (closing.mode !== 'password' && lock?.mode === closing.mode) {
      if (also) await bumpRoutes(tx, { site_id })
      return
    }
    // a site with members is limited by its seats
    const changed = { ...closing, ...(hasMembers(closing.mode) && { max_opens: null }), updated_at: services.clock() }
    await tx
      .insertInto('access_locks')
      .values({ site_id, project_id, ...changed })
      .onConflict((conflict) => conflict.column('site_id').doUpdateSet({ ...changed, epoch: newEpoch }))
      .execute()
    await forgetGenerations(tx, site_id)
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ site_id, mode: closing.mode }, 'site closed'))
  })
}

/** Removes the lock with its password, its end and its counter; the addresses stay. May be repeated. */
export function openSite(services: Services, site: Site): Promise<void> {
  return transact(services, async (tx) => {
    const lock = await lockAccess(tx, site)
    if (!lock) return
    await tx.deleteFrom('access_locks').where('site_id', '=', site.id).execute()
    await forgetGenerations(tx, site.id)
    await bumpRoutes(tx, { site_id: site.id })
    tx.afterCommit(() => services.log.info({ site_id: site.id }, 'site opened'))
  })
}

/** @throws AppError `not_found` while the site is open; `unprocessable` for an end that is over or too far ahead */
export function setExpiry(services: Services, site: Site, change: ExpiryChange): Promise<void> {
  return changeLock(services, site, (lock, now) => {
    const next = expiryAfter(lock.expires_at, change, now)
    if ('refusal' in next) throw unprocessable(next.refusal)
    return { expires_at: next.end }
  })
}

/** The members to change; an undefined one stays. */
export interface OpensChange {
  /** Null lifts the limit. */
  readonly max_opens?: number | null | undefined
  readonly reset_counter?: boolean | undefined
}

/** @throws AppError `not_found` while the site is open; `conflict` for a limit of a site with members, whose seats are limited */
export function setOpens(services: Services, site: Site, { max_opens, reset_counter }: OpensChange): Promise<void> {
  return changeLock(services, site, ({ mode }) => {
    if (max_opens !== undefined && hasMembers(mode))
      throw conflict('a site with members is limited by max_seats, not by max_opens')
    // an undefined member is left out of the statement
    return { max_opens, ...(reset_counter === true && { opens_count: 0 }) }
  })
}

/** The hash of the token with which machines pass; null ends it. @throws AppError `not_found` while the site is open */
export function setBypass(services: Services, site: Site, bypass_sha256: string | null): Promise<void> {
  return changeLock(services, site, () => ({ bypass_sha256 }))
}

type LockChange = {
  readonly [Name in 'expires_at' | 'max_opens' | 'opens_count' | 'bypass_sha256']?: LockRow[Name] | undefined
}

function changeLock(services: Services, site: Site, change: (lock: LockRow, now: Date) => LockChange): Promise<void> {
  return transact(services, async (tx) => {
    const lock = await lockAccess(tx, site)
    if (!lock) throw isOpen()
    const now = services.clock()
    const changed = change(lock, now)
    await tx
      .updateTable('access_locks')
      .set({ ...changed, updated_at: now })
      .where('site_id', '=', site.id)
      .execute()
    await bumpRoutes(tx, { site_id: site.id })
    tx.afterCommit(() => services.log.info({ site_id: site.id, changed: Object.keys(changed) }, 'access to a site changed'))
  })
}
