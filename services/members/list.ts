import { type Selectable, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { maxShownConsents } from '../../core/limits.ts'
import { type MemberStatus, memberStatuses } from '../../core/members.ts'
import { bytesOf, type RowSize, readBySize, readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { findLock } from '../access/locks.ts'
import { listDocuments, type SiteDocument } from './documents.ts'
import { type MemberRow, noSuchMember } from './members.ts'
import { countSeats } from './seats.ts'
import { findSettings, type MemberSettings } from './settings.ts'

/** A member with the documents that they have consented to. */
export type MemberWithConsents = MemberRow & {
  /** `at`: RFC 3339. */
  readonly consents: readonly { readonly document_id: string; readonly at: string }[]
}

const withConsents = (db: Db) =>
  db
    .selectFrom('members')
    .selectAll('members')
    .select((eb) =>
      jsonArrayFrom(
        eb
          .selectFrom('member_consents as consent')
          .select('consent.document_id')
          .select(sql<string>`to_char(consent.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`.as('at'))
          .whereRef('consent.member_id', '=', 'members.id')
          .orderBy('consent.at')
          .orderBy('consent.document_id')
          .limit(maxShownConsents),
      ).as('consents'),
    )

export interface MemberFilter {
  /** A part of the address or the name, in any case; undefined for all members. */
  readonly q: string | undefined
  readonly limit: number
  readonly offset: number
}

/** Bytes of a consent in JSON. */
const consentBytes = 100

/** The members of a page, newest first, for {@link readMembers}, and how many match. */
export async function listMembers(
  db: Db,
  siteId: string,
  { q, limit, offset }: MemberFilter,
): Promise<{ readonly sizes: readonly RowSize[]; readonly total: number }> {
  const matches = sql<boolean>`(${q ?? ''} = '' or strpos(members.email, lower(${q ?? ''})) > 0
    or strpos(lower(coalesce(members.name, '')), lower(${q ?? ''})) > 0)`
  const consents = sql<number>`(select count(*) * ${consentBytes}::int from member_consents c where c.member_id = members.id)`
  const sizes = await db
    .selectFrom('members')
    .select(['members.id', consents.as('bytes')])
    .where('members.site_id', '=', siteId)
    .where(matches)
    .orderBy('members.id', 'desc')
    .limit(limit)
    .offset(offset)
    .execute()
  const { total } = await db
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('members.site_id', '=', siteId)
    .where(matches)
    .executeTakeFirstOrThrow()
  return { sizes, total }
}

/** The members of a page, in batches. */
export const readMembers = (db: Db, siteId: string, sizes: readonly RowSize[]): AsyncGenerator<MemberWithConsents[]> =>
  readBySize(sizes, (ids) => withConsents(db).where('members.site_id', '=', siteId).where('members.id', 'in', ids).execute())

/** @throws AppError `not_found` */
export async function getMember(db: Db, siteId: string, id: string): Promise<MemberWithConsents> {
  const member = await withConsents(db).where('members.site_id', '=', siteId).where('members.id', '=', id).executeTakeFirst()
  if (!member) throw noSuchMember()
  return member
}

/** Everything about the members of a site but themselves. */
export interface Membership {
  readonly counters: Readonly<Record<MemberStatus, number>>
  readonly seats_taken: number
  readonly settings: MemberSettings
  readonly documents: readonly SiteDocument[]
}

export async function readMembership(db: Db, siteId: string, now: Date): Promise<Membership> {
  const rows = await db
    .selectFrom('members')
    .select('status')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', siteId)
    .groupBy('status')
    .execute()
  const counted = (status: MemberStatus) => rows.find((row) => row.status === status)?.count ?? 0
  const lock = await findLock(db, siteId)
  return {
    counters: Object.fromEntries(memberStatuses.map((status) => [status, counted(status)])) as Record<MemberStatus, number>,
    seats_taken: await countSeats(db, siteId, lock?.mode, now),
    settings: await findSettings(db, siteId),
    documents: await listDocuments(db, siteId),
  }
}

/** The payments of a member, oldest first, in batches. */
export const readPayments = (db: Db, { id, site_id }: MemberRow) =>
  readInPages<MemberPayment>(({ after, limit }) =>
    db
      .selectFrom('checkouts')
      .select(paymentColumns)
      .where('site_id', '=', site_id)
      .where('member_id', '=', id)
      .$if(after !== undefined, (query) => query.where('id', '>', after?.id ?? ''))
      .orderBy('id')
      .limit(limit)
      .execute(),
  )

const paymentColumns = [
  'id',
  'provider',
  'amount_minor',
  'currency',
  'period_days',
  'status',
  'created_at',
  'paid_at',
  'refunded_at',
  'paid_until',
] as const

export type MemberPayment = Pick<Selectable<DB['checkouts']>, (typeof paymentColumns)[number]>

/** The emails to a member, oldest first, in batches. */
export async function* readEmailsTo(db: Db, { site_id, project_id, email }: MemberRow) {
  const sizes = await db
    .selectFrom('mails')
    .select(['id', bytesOf('text').as('bytes')])
    .where('project_id', '=', project_id)
    .where('kind', '=', 'membership')
    .where('about', '=', site_id)
    .where('recipient', '=', email)
    .orderBy('id')
    .execute()
  yield* readBySize(sizes, (ids) =>
    db.selectFrom('mails').select(['id', 'subject', 'text', 'created_at', 'sent_at']).where('id', 'in', ids).execute(),
  )
}
