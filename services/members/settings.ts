import type { Selectable } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { hasMembers } from '../../core/members.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { findLock, isOpen } from '../access/locks.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockLiveSite, type SiteRow } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'

export type Site = Pick<SiteRow, 'id' | 'project_id'>

/** What the owner of a site asks of its members. */
export type MemberSettings = Omit<Selectable<DB['member_settings']>, 'site_id' | 'project_id'>

const unset: MemberSettings = {
  moderation: true,
  ask_name: false,
  name_label: null,
  consent_mode: 'none',
  form_style: 'card',
  max_seats: null,
  consent_version: 0,
}

/** The settings of a site; those of a new site when nothing was set. */
export async function findSettings(db: Db, siteId: string): Promise<MemberSettings> {
  const row = await db
    .selectFrom('member_settings')
    .select(['moderation', 'ask_name', 'name_label', 'consent_mode', 'form_style', 'max_seats', 'consent_version'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return row ?? unset
}

/** The members to change; an undefined one stays. */
export type SettingsChange = {
  readonly [Name in Exclude<keyof MemberSettings, 'consent_version'>]?: MemberSettings[Name] | undefined
}

/** Changes what a site asks of its members, whether it is closed or not. @throws AppError `conflict` when the site is in the trash */
export function setMemberSettings(services: Services, site: Site, change: SettingsChange): Promise<void> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    await writeSettings(tx, site, change)
    const changed = Object.entries(change).flatMap(([name, value]) => (value === undefined ? [] : [name]))
    tx.afterCommit(() => services.log.info({ site_id: site.id, changed }, 'settings of members changed'))
  })
}

/** Changes the settings, under the lock of the site. */
export async function writeSettings(tx: Tx, { id: site_id, project_id }: Site, change: SettingsChange): Promise<void> {
  const { consent_mode, consent_version } = await findSettings(tx, site_id)
  const asksFirst = consent_version === 0 && consent_mode === 'none' && (change.consent_mode ?? 'none') !== 'none'
  // who has registered before consents at the next visit
  const columns = { ...change, ...(asksFirst && { consent_version: 1 }) }
  await tx
    .insertInto('member_settings')
    .values({ site_id, project_id, ...columns })
    // an undefined member is left out of the statement
    .onConflict((conflict) => conflict.column('site_id').doUpdateSet({ ...columns, site_id }))
    .execute()
  await bumpRoutes(tx, { site_id })
}

/**
 * Sets how many members a site may have; those that it has stay. @param max_seats null lifts the limit
 * @throws AppError `not_found` while the site is open; `conflict` when it is closed in a way that has no members, or is in the trash
 */
export function setSeats(services: Services, site: Site, max_seats: number | null): Promise<void> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    const lock = await findLock(tx, site.id)
    if (!lock) throw isOpen()
    if (!hasMembers(lock.mode)) throw conflict('max_seats is for sites with members; this site is limited by max_opens')
    await writeSettings(tx, site, { max_seats })
    tx.afterCommit(() => services.log.info({ site_id: site.id, changed: ['max_seats'] }, 'settings of members changed'))
  })
}

/**
 * Asks all members to consent to the documents again, at their next visit.
 * @returns how many active members are asked: none while the site asks for no consent
 * @throws AppError `conflict` when the site is in the trash
 */
export function requestConsent(services: Services, site: Site): Promise<number> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    return await raiseConsentVersion(services, tx, site)
  })
}

/** Under the lock of the site. */
export async function raiseConsentVersion(services: Services, tx: Tx, { id: site_id, project_id }: Site): Promise<number> {
  const { consent_mode } = await tx
    .insertInto('member_settings')
    .values({ site_id, project_id, consent_version: 1 })
    .onConflict((conflict) =>
      conflict.column('site_id').doUpdateSet((eb) => ({ consent_version: eb('member_settings.consent_version', '+', 1) })),
    )
    .returning('consent_mode')
    .executeTakeFirstOrThrow()
  await bumpRoutes(tx, { site_id })
  tx.afterCommit(() => services.log.info({ site_id }, 'consent of members asked for again'))
  if (consent_mode === 'none') return 0
  const { count } = await tx
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', site_id)
    .where('status', '=', 'active')
    .executeTakeFirstOrThrow()
  return count
}
