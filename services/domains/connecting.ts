import { sql } from 'kysely'
import { domainProofPeriodMs } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { isDomainUnderWay, isUnverifiedDomain, isVerifiedDomain } from '../domain-predicates.ts'
import type { Tx } from '../transact.ts'
import { type DomainRecord, type DomainRow, domainRecords } from './domains.ts'

/** Identifies one attempt to connect one domain. */
export interface DomainRun {
  readonly domain_id: string
  readonly attempt: number
}

/** Changes the domain only while the attempt owns it. */
const updateOfRun = (db: Db, { domain_id, attempt }: DomainRun) =>
  db.updateTable('domains').where('domains.id', '=', domain_id).where('domains.attempt', '=', attempt)

/** Undefined when another attempt owns the domain, or it is gone. */
export function findDomainOfRun(db: Db, { domain_id, attempt }: DomainRun): Promise<DomainRecord | undefined> {
  return domainRecords(db).where('domains.id', '=', domain_id).where('domains.attempt', '=', attempt).executeTakeFirst()
}

/** Sets the next look-up of the workflow. False when the attempt does not own the domain. */
export async function setNextCheck(db: Db, run: DomainRun, next_check_at: Date | null): Promise<boolean> {
  const changed = await updateOfRun(db, run).set({ next_check_at }).where(isUnverifiedDomain).executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** Records that the workflow of the attempt is done. False when that was recorded before. */
export async function setConnected(tx: Tx, run: DomainRun, now: Date): Promise<boolean> {
  const changed = await updateOfRun(tx, run)
    .set({ connected_at: now })
    .where(isVerifiedDomain)
    .where('connected_at', 'is', null)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** Begins a new attempt for a domain whose workflow ends without success. False when there is another already. */
export async function reopenDomain(tx: Tx, run: DomainRun): Promise<boolean> {
  const changed = await updateOfRun(tx, run)
    .set({ attempt: run.attempt + 1, connected_at: null })
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** Replaces a stalled attempt with a new one; a proof is kept. False when there is another already, or nothing is left to do. */
export async function retryDomain(tx: Tx, run: DomainRun, now: Date): Promise<boolean> {
  const changed = await updateOfRun(tx, run)
    .set({
      attempt: run.attempt + 1,
      connected_at: null,
      // for a domain without an ownership to check
      next_check_at: sql<Date>`case when ${isUnverifiedDomain} then ${now}::timestamptz else next_check_at end`,
    })
    .where(isDomainUnderWay)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/**
 * Lists domains whose workflow should have made progress before the instant, by id: an unverified one is looked up again at `next_check_at`, and
 * a verified one is connected when its workflow ends.
 */
export function listStalledDomains(db: Db, before: Date, { limit, afterId }: { limit: number; afterId?: string | undefined }) {
  return db
    .selectFrom('domains')
    .innerJoin('sites', 'sites.id', 'domains.site_id')
    .select(['domains.id as domain_id', 'domains.attempt', 'domains.domain', 'domains.project_id', 'domains.site_id'])
    .select('sites.name as site_name')
    .where(isDomainUnderWay)
    .where((eb) => eb(eb.fn.coalesce('domains.verified_at', 'domains.next_check_at'), '<', before))
    .$if(afterId !== undefined, (query) => query.where('domains.id', '>', afterId ?? ''))
    .orderBy('domains.id')
    .limit(limit)
    .execute()
}

/** Lists verified domains of sites outside the trash whose ownership must be checked again. */
export function listDueDomains(db: Db, now: Date, limit: number): Promise<DomainRow[]> {
  return db
    .selectFrom('domains')
    .innerJoin('sites', 'sites.id', 'domains.site_id')
    .selectAll('domains')
    .where(isVerifiedDomain)
    .where('domains.next_check_at', '<=', now)
    .where('sites.deletion_scheduled_at', 'is', null)
    .orderBy('domains.next_check_at')
    .limit(limit)
    .execute()
}

/** Records that the TXT record of a verified domain is missing. False when that was recorded before. */
export async function markMissing(tx: Tx, run: DomainRun, now: Date): Promise<boolean> {
  const changed = await updateOfRun(tx, run)
    .set({ missing_since: now })
    .where(isVerifiedDomain)
    .where('missing_since', 'is', null)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/**
 * Ends the verification of a domain whose TXT record has been missing too long, and begins its next attempt. False when it has
 * changed in the meantime. The caller holds the lock of the site and bumps its route.
 */
export async function loseDomain(tx: Tx, run: DomainRun, now: Date, next_check_at: Date): Promise<boolean> {
  const changed = await updateOfRun(tx, run)
    .set({
      attempt: run.attempt + 1,
      verified_at: null,
      proven_at: null,
      missing_since: null,
      connected_at: null,
      connecting_since: now,
      next_check_at,
    })
    .where('missing_since', 'is not', null)
    .where('proven_at', '<=', new Date(now.getTime() - domainProofPeriodMs))
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}
