import { type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'
import { notifyCertificate } from '../feeds/certificates.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { lockSiteOf } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'

export type CertificateRow = Selectable<DB['certificates']>

/** Identifies one order of one certificate. */
export interface OrderRun {
  readonly certificate_id: string
  readonly order_id: string
}

/** An order with the facts for its start; `project_id` and `site_id` are null for a name of the platform. */
export interface StartedOrder extends OrderRun {
  readonly name: string
  readonly project_id: string | null
  readonly site_id: string | null
}

/**
 * Begins the order of a certificate, unless one is under way.
 * @param name the name of the domain, perhaps a wildcard, or of the platform when `domain_id` is null
 */
export async function beginOrder(
  tx: Tx,
  { domain_id, name }: { readonly domain_id: string | null; readonly name: string },
  now: Date,
): Promise<OrderRun> {
  const row = await tx
    .insertInto('certificates')
    .values({ domain_id, name, order_id: sql<string>`uuidv7()`, ordered_at: now, next_try_at: now })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet((eb) => ({
        domain_id,
        order_id: eb.fn.coalesce('certificates.order_id', 'excluded.order_id'),
        ordered_at: sql<Date>`case when certificates.order_id is null then excluded.ordered_at else certificates.ordered_at end`,
        next_try_at: sql<Date>`case when certificates.order_id is null then excluded.next_try_at else certificates.next_try_at end`,
        tries: sql<number>`case when certificates.order_id is null then 0 else certificates.tries end`,
        error: sql<string | null>`case when certificates.order_id is null then null else certificates.error end`,
      })),
    )
    .returning(['id as certificate_id', (eb) => eb.ref('order_id').$notNull().as('order_id')])
    .executeTakeFirstOrThrow()
  return row
}

/** Certificates that are wanted: those of the platform, and of verified domains whose site is not in the trash. */
const wanted = (db: Db) =>
  db
    .selectFrom('certificates')
    .leftJoin('domains', 'domains.id', 'certificates.domain_id')
    .leftJoin('sites', 'sites.id', 'domains.site_id')
    .where((eb) =>
      eb.or([
        eb('certificates.domain_id', 'is', null),
        eb.and([isVerifiedDomain, eb('sites.deletion_scheduled_at', 'is', null)]),
      ]),
    )

/** Undefined when another order took its place, or the name may not have a certificate now. A successful order is still found. */
export function findOrder(db: Db, { certificate_id, order_id }: OrderRun): Promise<CertificateRow | undefined> {
  return wanted(db)
    .selectAll('certificates')
    .where('certificates.id', '=', certificate_id)
    .where((eb) => eb.or([eb('certificates.order_id', '=', order_id), eb('certificates.issued_by', '=', order_id)]))
    .executeTakeFirst()
}

/** Stores why a try failed and when the next one begins. False when another order took its place. */
export async function setOrderError(
  db: Db,
  { certificate_id, order_id }: OrderRun,
  state: { readonly error: string; readonly next_try_at: Date; readonly tries?: number },
): Promise<boolean> {
  const changed = await db
    .updateTable('certificates')
    .set(state)
    .where('id', '=', certificate_id)
    .where('order_id', '=', order_id)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** Ends an order without a certificate. A certificate in use stays. The next order begins at `renew_at`. */
export async function endOrder(
  db: Db,
  { certificate_id, order_id }: OrderRun,
  { renew_at, error }: { readonly renew_at: Date; readonly error: string | null },
): Promise<void> {
  await db
    .updateTable('certificates')
    .set({ order_id: null, next_try_at: null, renew_at, ...(error !== null && { error }) })
    .where('id', '=', certificate_id)
    .where('order_id', '=', order_id)
    .execute()
}

export interface IssuedCertificate {
  readonly certificate: string
  readonly key_sealed: string
  readonly not_before: Date
  readonly not_after: Date
  readonly renew_at: Date
}

/**
 * Stores the certificate of an order and notifies every edge. The first one of a domain also changes the route of its site, because other
 * names of the site may redirect there from now on. False when another order took its place, or the name is gone.
 */
export function storeCertificate(
  services: Services,
  { certificate_id, order_id }: OrderRun,
  issued: IssuedCertificate,
): Promise<boolean> {
  return transact(services, async (tx) => {
    const first = await tx
      .selectFrom('certificates')
      .select((eb) => eb.ref('domain_id').$notNull().as('domain_id'))
      .where('id', '=', certificate_id)
      .where('domain_id', 'is not', null)
      .where('certificate', 'is', null)
      .executeTakeFirst()
    const site = first && (await lockSiteOf(tx, 'domains', first.domain_id))
    const stored = await tx
      .updateTable('certificates')
      .set({ ...issued, issued_by: order_id, order_id: null, tries: 0, next_try_at: null, error: null })
      .set({ version: sql`version + 1`, changed_at: sql`clock_timestamp()` })
      .where('id', '=', certificate_id)
      .where('order_id', '=', order_id)
      .executeTakeFirst()
    if (stored.numUpdatedRows === 0n) return false
    await notifyCertificate(tx, certificate_id)
    if (site) await bumpRoutes(tx, { site_id: site.id })
    return true
  })
}

/** Inserts rows for names of the platform that have none yet; their orders begin with the next {@link listDueNames}. */
export async function insertPlatformNames(tx: Tx, names: readonly string[], now: Date): Promise<void> {
  if (names.length === 0) return
  await tx
    .insertInto('certificates')
    .values(names.map((name) => ({ name, renew_at: now })))
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
}

/** Lists the orders of platform names that wait for their next try. */
export function listWaitingPlatformOrders(db: Db, names: readonly string[]): Promise<{ order_id: string }[]> {
  if (names.length === 0) return Promise.resolve([])
  return db
    .selectFrom('certificates')
    .select((eb) => eb.ref('order_id').$notNull().as('order_id'))
    .where('domain_id', 'is', null)
    .where('name', 'in', names)
    .where('order_id', 'is not', null)
    .execute()
}

/** Counts the orders that began after the instant, and those of them that are at their first try. */
export async function countOrders(
  db: Db,
  { begunAfter, tryingAfter }: { readonly begunAfter: Date; readonly tryingAfter: Date },
) {
  return await db
    .selectFrom('certificates')
    .select((eb) => [
      eb.fn.countAll<number>().as('begun'),
      eb.fn
        .countAll<number>()
        .filterWhere('order_id', 'is not', null)
        .filterWhere('tries', '=', 0)
        .filterWhere('ordered_at', '>', tryingAfter)
        .as('trying'),
    ])
    .where('ordered_at', '>', begunAfter)
    .executeTakeFirstOrThrow()
}

/** Takes the lock for beginning orders until the transaction ends; false when another process has it. */
export async function tryLockOrders(tx: Tx): Promise<boolean> {
  const { rows } = await sql<{ taken: boolean }>`
    select pg_try_advisory_xact_lock(hashtext('plinth certificate orders')) as taken`.execute(tx)
  return rows[0]?.taken === true
}

/** Lists the names whose order is due, the most urgent first: those without a certificate, then by its expiry. */
export function listDueNames(
  db: Db,
  now: Date,
  { platformNames, limit }: { readonly platformNames: readonly string[]; readonly limit: number },
): Promise<Pick<StartedOrder & CertificateRow, 'name' | 'domain_id' | 'project_id' | 'site_id'>[]> {
  return wanted(db)
    .select(['certificates.name', 'certificates.domain_id', 'domains.project_id', 'domains.site_id'])
    .where('certificates.order_id', 'is', null)
    .where('certificates.renew_at', '<=', now)
    .where((eb) =>
      eb.or([
        eb('certificates.domain_id', 'is not', null),
        ...(platformNames.length > 0 ? [eb('certificates.name', 'in', platformNames)] : []),
      ]),
    )
    .orderBy('certificates.not_after', (by) => by.asc().nullsFirst())
    .limit(limit)
    .execute()
}

/** Lists the orders whose next step was due before the instant, by id: their workflow may have been lost. */
export function listStalledOrders(
  db: Db,
  before: Date,
  { limit, afterId }: { readonly limit: number; readonly afterId?: string | undefined },
): Promise<StartedOrder[]> {
  return wanted(db)
    .select(['certificates.id as certificate_id', 'certificates.name', 'domains.project_id', 'domains.site_id'])
    .select((eb) => eb.ref('certificates.order_id').$notNull().as('order_id'))
    .where('certificates.order_id', 'is not', null)
    .where('certificates.next_try_at', '<', before)
    .$if(afterId !== undefined, (query) => query.where('certificates.id', '>', afterId ?? ''))
    .orderBy('certificates.id')
    .limit(limit)
    .execute()
}
