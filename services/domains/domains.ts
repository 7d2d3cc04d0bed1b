import { type Selectable, sql } from 'kysely'
import { certificateStatus, domainState, isVerified } from '../../core/domain-state.ts'
import type { ARecordVerdict, Diagnostics } from '../../core/domains.ts'
import { notFound } from '../../core/errors.ts'
import { domainRecheckMs } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'

export type DomainRow = Selectable<DB['domains']>

/** A domain with the columns of its site and certificate. */
export const domainRecords = (db: Db) =>
  db
    .selectFrom('domains')
    .innerJoin('sites', 'sites.id', 'domains.site_id')
    .leftJoin('certificates', 'certificates.domain_id', 'domains.id')
    .selectAll('domains')
    .select('sites.name as site_name')
    .select((eb) => eb('sites.deletion_scheduled_at', 'is not', null).$castTo<boolean>().as('trashed'))
    .select((eb) => eb('certificates.certificate', 'is not', null).$castTo<boolean>().as('secured'))
    .select(['certificates.not_after as certificate_expires_at', 'certificates.error as certificate_error'])
    .select(['certificates.order_id', 'certificates.next_try_at as certificate_next_try_at'])

export type DomainRecord = Awaited<ReturnType<ReturnType<typeof domainRecords>['executeTakeFirstOrThrow']>>

const isIssuing = ({ acme }: Config) => acme.directory !== undefined

/** The result of `domainState` in core, with the settings of the platform. */
export const stateOf = (config: Config, domain: DomainRecord) => domainState(domain, isIssuing(config))

/** The result of `certificateStatus` in core, with the settings of the platform. */
export const certificateStatusOf = (config: Config, domain: DomainRecord) => certificateStatus(domain, isIssuing(config))

/** The domains of a site in the order in which they were added, in batches. */
export const readDomains = (db: Db, projectId: string, siteId: string) =>
  readInPages<DomainRecord>(({ after, limit }) =>
    domainRecords(db)
      .where('domains.project_id', '=', projectId)
      .where('domains.site_id', '=', siteId)
      .$if(after !== undefined, (query) => query.where('domains.id', '>', after?.id ?? ''))
      .orderBy('domains.id')
      .limit(limit)
      .execute(),
  )

/** Undefined when the project has no such domain. */
export function findDomain(db: Db, projectId: string, id: string): Promise<DomainRecord | undefined> {
  return domainRecords(db).where('domains.project_id', '=', projectId).where('domains.id', '=', id).executeTakeFirst()
}

/** Counts the domains against the quota, including those of sites in the trash. */
export async function countDomains(db: Db, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom('domains')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow()
  return count
}

export interface WantedDomain {
  readonly domain: string
  readonly project_id: string
}

/** The first values of a domain's row. */
export interface DomainClaim {
  /** Since when the project has claimed the domain without a proof. */
  readonly claimed_at: Date
  readonly looked_up_at: Date | null
}

/** Finds where the domain is attached: rows of other projects that are claimed since before `unprovenBefore` without a proof do not count. */
export async function findAttached(db: Db, { domain, project_id }: WantedDomain, unprovenBefore: Date) {
  const row = await db
    .selectFrom('domains')
    .innerJoin('sites', 'sites.id', 'domains.site_id')
    .select(['domains.project_id', 'domains.site_id', 'domains.verified_at', 'domains.claimed_at', 'sites.name as site_name'])
    .select((eb) => eb('sites.deletion_scheduled_at', 'is not', null).$castTo<boolean>().as('trashed'))
    .where('domains.domain', '=', domain)
    .executeTakeFirst()
  return row && (row.project_id === project_id || isVerified(row) || row.claimed_at >= unprovenBefore) ? row : undefined
}
export type AttachedDomain = NonNullable<Awaited<ReturnType<typeof findAttached>>>

/** Undefined when the domain is taken. */
export function insertDomain(
  tx: Tx,
  domain: WantedDomain & DomainClaim & { readonly site_id: string; readonly verification_token: string },
  { now, next_check_at }: { readonly now: Date; readonly next_check_at: Date },
): Promise<DomainRow | undefined> {
  return tx
    .insertInto('domains')
    .values({ ...domain, created_at: now, connecting_since: now, next_check_at })
    .onConflict((conflict) => conflict.column('domain').doNothing())
    .returningAll()
    .executeTakeFirst()
}

/**
 * Takes the permit for one look-up by the owner; false when another was taken less than `intervalMs` ago. One statement decides for all
 * processes; it waits for concurrent changes of the domain. An instant far in the future comes from a wrong clock, and is ignored.
 */
export async function takeLookUp(db: Db, projectId: string, id: string, now: Date, intervalMs: number): Promise<boolean> {
  const taken = await db
    .updateTable('domains')
    .set({ looked_up_at: now })
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where((eb) =>
      eb.or([
        eb('looked_up_at', 'is', null),
        eb('looked_up_at', '<=', new Date(now.getTime() - intervalMs)),
        eb('looked_up_at', '>', new Date(now.getTime() + intervalMs)),
      ]),
    )
    .executeTakeFirst()
  return taken.numUpdatedRows > 0n
}

/** A transaction under the lock of the domain's site. Undefined when there is no such domain. */
export function withDomain<Result>(
  services: Services,
  id: string,
  work: (tx: Tx, domain: DomainRecord) => Promise<Result>,
): Promise<Result | undefined> {
  return transact(services, async (tx) => {
    const site = await lockSiteOf(tx, 'domains', id)
    const domain = site && (await domainRecords(tx).where('domains.id', '=', id).executeTakeFirst())
    return domain && (await work(tx, domain))
  })
}

/** The findings of a look-up, for the owner. */
export interface Findings {
  readonly a_record: ARecordVerdict
  readonly diagnostics: Diagnostics
}

/** Stores the findings of a look-up and, when given, the next look-up by the platform. Does nothing when the row is gone. */
export async function saveFindings(db: Db, id: string, found: Findings, next_check_at?: Date): Promise<void> {
  await db
    .updateTable('domains')
    .set({ ...columnsOf(found), ...(next_check_at && { next_check_at }) })
    .where('id', '=', id)
    .execute()
}

/** Marks the domain as proved now. False when the row is gone. The caller holds the lock of the site and bumps its route. */
export async function proveDomain(tx: Tx, id: string, found: Findings, now: Date): Promise<boolean> {
  const proved = await tx
    .updateTable('domains')
    .set((eb) => ({
      ...columnsOf(found),
      verified_at: eb.fn.coalesce('verified_at', sql<Date>`${now}::timestamptz`),
      proven_at: now,
      missing_since: null,
      next_check_at: nextRecheck(now),
    }))
    .where('id', '=', id)
    .executeTakeFirst()
  return proved.numUpdatedRows > 0n
}

/** A day later, give or take an hour, so that domains that were added together spread out. */
export const nextRecheck = (now: Date) =>
  new Date(now.getTime() + domainRecheckMs + (Math.random() - 0.5) * (domainRecheckMs / 12))

export const noSuchDomain = () => notFound('there is no domain with this id in the project; list_domains shows those of a site')

const columnsOf = ({ a_record, diagnostics }: Findings) => ({
  a_record: jsonb(a_record),
  diagnostics: jsonb(diagnostics),
})
