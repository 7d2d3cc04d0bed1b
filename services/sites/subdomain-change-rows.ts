import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'
import { freePendingSubdomain } from './subdomains.ts'

export type SubdomainChangeRow = Selectable<DB['subdomain_changes']>

const isPending = sql<boolean>`(subdomain_changes.cancelled_at is null and subdomain_changes.switched_at is null)`

/** The columns of a site's pending change. */
export const pendingChange = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'subdomain_changes'>, 'sites'>) => {
  const pending = eb.selectFrom('subdomain_changes').whereRef('subdomain_changes.site_id', '=', 'sites.id').where(isPending)
  return [
    pending.select('subdomain_changes.new_subdomain').as('pending_subdomain'),
    pending.select('subdomain_changes.switch_at').as('pending_switch_at'),
  ] as const
}

/** The last request that was not cancelled, switched or not. */
export function findLastChange(db: Db, siteId: string): Promise<SubdomainChangeRow | undefined> {
  return db
    .selectFrom('subdomain_changes')
    .selectAll()
    .where('site_id', '=', siteId)
    .where('cancelled_at', 'is', null)
    .orderBy('requested_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** The newest changes that were cancelled after the instant, newest first. */
export function listCancelledChanges(db: Db, siteId: string, after: Date, limit: number): Promise<SubdomainChangeRow[]> {
  return db
    .selectFrom('subdomain_changes')
    .selectAll()
    .where('site_id', '=', siteId)
    .where('cancelled_at', '>', after)
    .orderBy('cancelled_at', 'desc')
    .limit(limit)
    .execute()
}

export function insertSubdomainChange(
  tx: Tx,
  change: Pick<SubdomainChangeRow, 'site_id' | 'old_subdomain' | 'new_subdomain' | 'requested_at' | 'switch_at'>,
): Promise<SubdomainChangeRow> {
  return tx.insertInto('subdomain_changes').values(change).returningAll().executeTakeFirstOrThrow()
}

/** Ends the pending change and frees its name, under the lock of the site's row. Undefined when there is none. */
export async function cancelSubdomainChange(tx: Tx, siteId: string, now: Date): Promise<SubdomainChangeRow | undefined> {
  const cancelled = await tx
    .updateTable('subdomain_changes')
    .set({ cancelled_at: now })
    .where('site_id', '=', siteId)
    .where(isPending)
    .returningAll()
    .executeTakeFirst()
  if (cancelled) await freePendingSubdomain(tx, siteId, now)
  return cancelled
}

/** The state of a change; undefined when its site is gone. */
export function findSubdomainChange(db: Db, id: string): Promise<SubdomainChangeRow | undefined> {
  return db.selectFrom('subdomain_changes').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The change has happened. Its new name; undefined when it is not pending any more. */
export async function markSwitched(tx: Tx, id: string, now: Date): Promise<string | undefined> {
  const switched = await tx
    .updateTable('subdomain_changes')
    .set({ switched_at: now })
    .where('id', '=', id)
    .where(isPending)
    .returning('new_subdomain')
    .executeTakeFirst()
  return switched?.new_subdomain
}

/** Pending changes that are due at the instant or before, the longest due first. */
export function listDueSubdomainChanges(
  db: Db,
  before: Date,
  { limit, afterId }: { limit: number; afterId?: string | undefined },
) {
  return db
    .selectFrom('subdomain_changes')
    .innerJoin('sites', 'sites.id', 'subdomain_changes.site_id')
    .select(['subdomain_changes.site_id', 'sites.name as site_name', 'sites.project_id', 'subdomain_changes.id as change_id'])
    .select(['subdomain_changes.old_subdomain', 'subdomain_changes.new_subdomain', 'subdomain_changes.switch_at'])
    .where(isPending)
    .where('subdomain_changes.switch_at', '<=', before)
    .$if(afterId !== undefined, (query) => query.where('subdomain_changes.id', '>', afterId ?? ''))
    .orderBy('subdomain_changes.id')
    .limit(limit)
    .execute()
}
