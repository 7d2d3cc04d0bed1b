import { type Selectable, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { maxAccessEmails } from '../../core/access-addresses.ts'
import { conflict, notFound } from '../../core/errors.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockLiveSite, type SiteRow } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { endVisits, signOutEverybody, type VisitsOf } from './visits.ts'

export type AccessEmail = Selectable<DB['access_emails']>
type Site = Pick<SiteRow, 'id' | 'project_id'>

export const shownLogins = 20
export const shownAttempts = 100

/** A login of a listed address. */
export interface Login {
  /** RFC 3339 */
  readonly at: string
  readonly device: string
  readonly ip_masked: string
  readonly result: string
}

/** An address with its newest logins. */
export type EmailWithLogins = AccessEmail & { readonly logins: readonly Login[] }

const withLogins = (db: Db) =>
  db
    .selectFrom('access_emails')
    .selectAll('access_emails')
    .select((eb) =>
      jsonArrayFrom(
        eb
          .selectFrom('access_logins as login')
          .select(['login.device', 'login.ip_masked', 'login.result'])
          .select(sql<string>`to_char(login.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`.as('at'))
          .whereRef('login.access_email_id', '=', 'access_emails.id')
          .orderBy('login.at', 'desc')
          .limit(shownLogins),
      ).as('logins'),
    )

/** The addresses that a code lets into a site, oldest first, each with its newest logins, in batches. */
export const readEmails = (db: Db, siteId: string) =>
  readInPages<EmailWithLogins>(({ after, limit }) =>
    withLogins(db)
      .where('site_id', '=', siteId)
      .$if(after !== undefined, (query) => query.where('id', '>', after?.id ?? ''))
      .orderBy('id')
      .limit(limit)
      .execute(),
  )

/** The newest attempts to log in with addresses that are not listed. */
export function listForeignAttempts(db: Db, siteId: string) {
  return db
    .selectFrom('access_logins')
    .select(['email_masked', 'at', 'device'])
    .where('site_id', '=', siteId)
    .where('access_email_id', 'is', null)
    .orderBy('at', 'desc')
    .limit(shownAttempts)
    .execute()
}

const visitsOf = ({ id }: Site): VisitsOf => ({ site_id: id, modes: ['email'] })

const noSuchEmail = () => notFound('the site has no address with this id; list_site_access_emails shows them all')

/** How many of the addresses were added, and how many the site has now. */
export interface Added {
  readonly added: number
  readonly total: number
}

/**
 * Lists addresses, those that are not listed yet. All of them or none.
 * @param emails in lower case, each once
 * @throws AppError `conflict` when the site would have too many, or is in the trash
 */
export function addEmails(services: Services, { id: site_id, project_id }: Site, emails: readonly string[]): Promise<Added> {
  if (emails.length > maxAccessEmails) throw tooMany(emails.length)
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const created_at = services.clock()
    const rows = emails.map((email) => ({ site_id, project_id, email, created_at }))
    const inserted = rows.length === 0 ? [] : await insertEmails(tx).values(rows).returning('id').execute()
    const total = await requireRoom(tx, site_id)
    tx.afterCommit(() => services.log.info({ site_id, added: inserted.length }, 'access addresses added'))
    return { added: inserted.length, total }
  })
}

/** Lists one address. @throws AppError `conflict` when it is listed already, the site has too many, or is in the trash */
export function addEmail(
  services: Services,
  { id: site_id, project_id }: Site,
  { email, label }: { readonly email: string; readonly label: string | null },
): Promise<EmailWithLogins> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const row = await insertEmails(tx)
      .values({ site_id, project_id, email, label, created_at: services.clock() })
      .returningAll()
      .executeTakeFirst()
    if (!row) throw conflict('the address is listed already')
    await requireRoom(tx, site_id)
    tx.afterCommit(() => services.log.info({ site_id, access_email_id: row.id }, 'access address added'))
    return { ...row, logins: [] }
  })
}

/** Leaves addresses that are listed already as they are. */
const insertEmails = (tx: Tx) =>
  tx.insertInto('access_emails').onConflict((conflict) => conflict.columns(['site_id', 'email']).doNothing())

const tooMany = (count: number) =>
  conflict(
    `a site may list ${maxAccessEmails} addresses, and with these it would have ${count}: nothing was added; remove some first`,
    'quota_access_emails',
  )

/** The number of addresses, which is exact under the lock of the site. */
async function requireRoom(tx: Tx, siteId: string): Promise<number> {
  const total = await countEmails(tx, siteId)
  if (total > maxAccessEmails) throw tooMany(total)
  return total
}

/** The number of addresses that a code lets in. */
export async function countEmails(db: Db, siteId: string): Promise<number> {
  const { count } = await db
    .selectFrom('access_emails')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', siteId)
    .executeTakeFirstOrThrow()
  return count
}

/** @param label null for none. @throws AppError `not_found`; `conflict` when the site is in the trash */
export function setEmailLabel(services: Services, site: Site, id: string, label: string | null): Promise<EmailWithLogins> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    await tx.updateTable('access_emails').set({ label }).where('site_id', '=', site.id).where('id', '=', id).execute()
    const row = await withLogins(tx).where('site_id', '=', site.id).where('id', '=', id).executeTakeFirst()
    if (!row) throw noSuchEmail()
    return row
  })
}

/** Removes one address and ends its visits. @throws AppError `not_found`; `conflict` when the site is in the trash */
export function removeEmail(services: Services, site: Site, id: string): Promise<void> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    const gone = await tx
      .deleteFrom('access_emails')
      .where('site_id', '=', site.id)
      .where('id', '=', id)
      .returning('id')
      .executeTakeFirst()
    if (!gone) throw noSuchEmail()
    await endVisits(tx, visitsOf(site), [gone.id], services.clock())
    await bumpRoutes(tx, { site_id: site.id })
    tx.afterCommit(() => services.log.info({ site_id: site.id, access_email_id: id }, 'access address removed'))
  })
}

/**
 * Removes addresses and ends their visits; those that are not listed are ignored.
 * @param which in lower case, or all of the site
 * @throws AppError `conflict` when the site is in the trash
 */
export function removeEmails(
  services: Services,
  site: Site,
  which: readonly string[] | 'all',
): Promise<{ readonly removed: number; readonly total: number }> {
  return transact(services, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    const gone = await tx
      .deleteFrom('access_emails')
      .where('site_id', '=', site.id)
      .$if(which !== 'all', (query) => query.where(sql<boolean>`email = any(${which}::text[])`))
      .returning('id')
      .execute()
    if (gone.length > 0) {
      const now = services.clock()
      if (which === 'all') await signOutEverybody(tx, visitsOf(site))
      else
        await endVisits(
          tx,
          visitsOf(site),
          gone.map(({ id }) => id),
          now,
        )
      await bumpRoutes(tx, { site_id: site.id })
      tx.afterCommit(() => services.log.info({ site_id: site.id, removed: gone.length }, 'access addresses removed'))
    }
    return { removed: gone.length, total: await countEmails(tx, site.id) }
  })
}
