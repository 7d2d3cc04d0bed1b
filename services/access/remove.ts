import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { SiteRow } from '../sites/sites.ts'
import { dropBlobs } from '../storage/blobs.ts'
import type { Tx } from '../transact.ts'

/** Deletes the logins, the codes, the members and the emails to them of a site that lets nobody in any more, in small steps. May be repeated. */
export async function deleteLoginsOfSite(db: Db, siteId: string): Promise<void> {
  await deleteInSteps(db, 'access_logins', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'access_codes', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'access_tickets', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'members', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'access_generations', sql`site_id = ${siteId}`)
  await deleteInSteps(db, 'access_emails', sql`site_id = ${siteId}`)
  const project = sql`(select project_id from sites where id = ${siteId})`
  await deleteInSteps(db, 'mails', sql`project_id = ${project} and kind in ('access_code', 'membership') and about = ${siteId}`)
}

const tables = [
  'access_logins',
  'access_codes',
  'access_tickets',
  'access_generations',
  'access_networks',
  'access_emails',
  'access_prices',
  'access_channels',
  'site_documents',
  // their consents go with them
  'members',
  'member_settings',
  'access_locks',
] as const

/** Deletes what is left of the access to a site, under its lock and that of its project. */
export async function deleteAccessOfSite(
  tx: Tx,
  { id, project_id }: Pick<SiteRow, 'id' | 'project_id'>,
  now: Date,
): Promise<void> {
  for (const table of tables) await tx.deleteFrom(table).where('site_id', '=', id).execute()
  const brands = await tx
    .deleteFrom('access_brands')
    .where('site_id', '=', id)
    .returning(['logo_sha256', 'favicon_sha256'])
    .execute()
  const images = brands.flatMap(({ logo_sha256, favicon_sha256 }) => [logo_sha256, favicon_sha256].filter((one) => one !== null))
  await dropBlobs(tx, project_id, images, now)
}
