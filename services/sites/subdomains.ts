import { type SqlBool, sql } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { quarantinePeriodMs } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import type { SubdomainKind } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'

// Decides which site has a name. Callers that change the names of a site hold the lock of its row.

/** The site that wants a name; a site that is not created yet has no id. */
export interface Asker {
  readonly project_id: string
  readonly site_id?: string
}

/** Names that the asker may take over: expired ones, those of a removed site of the project, and former ones of the site. */
const isFreeFor = ({ project_id, site_id }: Asker, now: Date) =>
  sql<SqlBool>`(
    (subdomains.kind in ('former', 'quarantined') and subdomains.held_until <= ${now})
    or (subdomains.kind = 'quarantined' and subdomains.project_id = ${project_id})
    or (subdomains.kind = 'former' and subdomains.site_id = ${site_id ?? null}::uuid)
  )`

/** Whether the asker cannot have the name now. */
export async function isSubdomainTaken(db: Db, subdomain: string, asker: Asker, now: Date): Promise<boolean> {
  const row = await db
    .selectFrom('subdomains')
    .select('subdomain')
    .where('subdomain', '=', subdomain)
    .where((eb) => eb.not(isFreeFor(asker, now)))
    .executeTakeFirst()
  return row !== undefined
}

export const taken = (subdomain: string) => conflict(`the subdomain ${subdomain} is taken; choose another`, 'name_taken')

/** Names that a project keeps from others. */
export interface HeldNames {
  readonly count: number
  /** When enough names are free for the project to take one more; null when time alone does not free enough. */
  readonly next_free_at: Date | null
}

/**
 * The names that other projects cannot have because of this one, besides the wanted one: current ones, also of sites in the trash, pending,
 * former and quarantined ones. The number is exact under the project's lock.
 */
export async function countHeldSubdomains(
  tx: Tx,
  { project_id, subdomain }: { readonly project_id: string; readonly subdomain: string },
  { limit, now }: { readonly limit: number; readonly now: Date },
): Promise<HeldNames> {
  const quarantine = sql`make_interval(secs => ${quarantinePeriodMs / 1000})`
  const { rows } = await sql<HeldNames>`
    select count(*) as count, (array_agg(free_at order by free_at nulls last))[count(*) - ${limit}::bigint + 1] as next_free_at
    from (
      select case
        when subdomains.kind = 'pending' then null
        when subdomains.kind = 'current' or held_until > deletion_scheduled_at then deletion_scheduled_at + ${quarantine}
        else held_until end as free_at
      from subdomains left join sites on sites.id = subdomains.site_id
      where subdomains.project_id = ${project_id} and subdomains.subdomain <> ${subdomain}
        and (subdomains.kind in ('current', 'pending') or held_until > ${now})
    ) held`.execute(tx)
  return rows[0] ?? { count: 0, next_free_at: null }
}

/** Takes the name for the site; false when another site has it. Of two concurrent calls, one succeeds. */
export async function holdSubdomain(
  tx: Tx,
  subdomain: string,
  site: Required<Asker>,
  kind: Extract<SubdomainKind, 'current' | 'pending'>,
  now: Date,
): Promise<boolean> {
  const { site_id, project_id } = site
  const held = await tx
    .insertInto('subdomains')
    .values({ subdomain, site_id, project_id, kind })
    .onConflict((conflict) =>
      conflict
        .column('subdomain')
        .doUpdateSet({
          site_id,
          project_id,
          kind,
          held_until: sql<Date | null>`case when subdomains.site_id = ${site_id}::uuid then subdomains.held_until end`,
        })
        .where(isFreeFor(site, now)),
    )
    .returning('subdomain')
    .executeTakeFirst()
  return held !== undefined
}

/** Releases the name of a cancelled change. A name that redirected before continues to. */
export async function freePendingSubdomain(tx: Tx, siteId: string, now: Date): Promise<void> {
  await tx
    .updateTable('subdomains')
    .set({ kind: 'former' })
    .where('site_id', '=', siteId)
    .where('kind', '=', 'pending')
    .where('held_until', '>', now)
    .execute()
  await tx.deleteFrom('subdomains').where('site_id', '=', siteId).where('kind', '=', 'pending').execute()
}

/** Makes the pending name current, and the current one a former one. */
export async function switchSubdomains(tx: Tx, siteId: string, formerUntil: Date): Promise<void> {
  await tx
    .updateTable('subdomains')
    .set((eb) => ({
      kind: sql<SubdomainKind>`case when ${eb.ref('kind')} = 'pending' then 'current' else 'former' end`,
      held_until: sql<Date | null>`case when ${eb.ref('kind')} = 'current' then ${formerUntil}::timestamptz end`,
    }))
    .where('site_id', '=', siteId)
    .where('kind', 'in', ['current', 'pending'])
    .execute()
}

/** Reserves the names of a removed site for its project until the instant. */
export async function quarantineSubdomains(tx: Tx, siteId: string, { now, until }: { now: Date; until: Date }): Promise<void> {
  await tx
    .deleteFrom('subdomains')
    .where('site_id', '=', siteId)
    .where('kind', '=', 'former')
    .where('held_until', '<=', now)
    .execute()
  await tx
    .updateTable('subdomains')
    .set({ kind: 'quarantined', site_id: null, held_until: until })
    .where('site_id', '=', siteId)
    .execute()
}
