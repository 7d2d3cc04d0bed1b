import { openIfPossible } from '../../infra/crypto/seal.ts'
import type { Services } from '../services.ts'

const place = (siteId: string) => ({ table: 'access_locks', id: siteId, column: 'sealed_password' })

/** The password of a lock; undefined when it has none, or when that was sealed with an earlier secret key. */
export function openPassword(
  { keyring }: Pick<Services, 'keyring'>,
  { site_id, sealed_password }: { readonly site_id: string; readonly sealed_password: string | null },
): string | undefined {
  return sealed_password === null ? undefined : openIfPossible(keyring, sealed_password, place(site_id))
}
