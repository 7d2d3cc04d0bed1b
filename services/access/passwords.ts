import { conflict } from '../../core/errors.ts'
import { openIfPossible, seal } from '../../infra/crypto/seal.ts'
import type { Services } from '../services.ts'
import type { SiteRow } from '../sites/sites.ts'
import { closeSite, findLock, isOpen } from './locks.ts'

const place = (siteId: string) => ({ table: 'access_locks', id: siteId, column: 'sealed_password' })

/** Closes a site with a password, or changes it, which signs out everybody. @throws AppError `conflict` when the site is in the trash */
export function closeWithPassword(services: Services, site: Pick<SiteRow, 'id' | 'project_id'>, password: string): Promise<void> {
  const sealed_password = seal(services.keyring, password, place(site.id))
  return closeSite(services, site, { mode: 'password', sealed_password })
}

/** The password of a lock; undefined when it has none, or when that was sealed with an earlier secret key. */
export function openPassword(
  { keyring }: Pick<Services, 'keyring'>,
  { site_id, sealed_password }: { readonly site_id: string; readonly sealed_password: string | null },
): string | undefined {
  return sealed_password === null ? undefined : openIfPossible(keyring, sealed_password, place(site_id))
}

/** @throws AppError `not_found` while the site is open; `conflict` when it has no password that can be shown */
export async function revealPassword(services: Pick<Services, 'db' | 'keyring'>, siteId: string): Promise<string> {
  const lock = await findLock(services.db, siteId)
  if (!lock) throw isOpen()
  if (lock.mode !== 'password') throw conflict(`the site has no password: it is closed in the mode ${lock.mode}`)
  const password = openPassword(services, lock)
  if (password === undefined) {
    throw conflict('the password cannot be read, because the secret key of the server has changed; set another one')
  }
  return password
}
