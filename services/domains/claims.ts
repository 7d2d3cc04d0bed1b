import { sql } from 'kysely'
import { isVerified } from '../../core/domain-state.ts'
import { maxLookUpsPerPause, releasedDomainPeriodMs } from '../../core/limits.ts'
import type { Allowance } from '../rates.ts'
import type { HeldNames } from '../sites/subdomains.ts'
import type { Tx } from '../transact.ts'
import type { DomainClaim, DomainRow, WantedDomain } from './domains.ts'

// A project that deletes a domain and adds it again continues its claim: the age without a proof, and the pause between look-ups.

/** Stores the claims of deleted domains. */
export async function keepClaims(tx: Tx, deleted: readonly DomainRow[], now: Date): Promise<void> {
  if (deleted.length === 0) return
  const rows = deleted.map((row) => ({
    project_id: row.project_id,
    domain: row.domain,
    // a project that has proved the domain begins a new claim
    claimed_at: isVerified(row) ? null : row.claimed_at,
    looked_up_at: row.looked_up_at,
    released_at: now,
  }))
  await tx.insertInto('released_domains').values(rows).execute()
}

/** Takes the project's claim to a domain that it adds; the row of the domain keeps it from now on. Under the project's lock. */
export async function resumeClaim(tx: Tx, { project_id, domain }: WantedDomain, now: Date): Promise<DomainClaim> {
  const released = await tx
    .deleteFrom('released_domains')
    .where('project_id', '=', project_id)
    .where('domain', '=', domain)
    .returningAll()
    .executeTakeFirst()
  const isKept = released !== undefined && released.released_at > keptSince(now)
  return {
    claimed_at: (isKept ? released.claimed_at : null) ?? now,
    looked_up_at: released?.looked_up_at ?? null,
  }
}

/** Counts the domains of the project and those that it deleted recently, except the wanted one. Exact under the project's lock. */
export async function countClaimedDomains(
  tx: Tx,
  { project_id, domain }: WantedDomain,
  { limit, now }: { readonly limit: number; readonly now: Date },
): Promise<HeldNames> {
  const { rows } = await sql<HeldNames>`
    select count(*) as count, (array_agg(free_at order by free_at nulls last))[count(*) - ${limit}::bigint + 1] as next_free_at
    from (
      select null::timestamptz as free_at from domains where project_id = ${project_id} and domain <> ${domain}
      union all
      select released_at + make_interval(secs => ${releasedDomainPeriodMs / 1000}) from released_domains
      where project_id = ${project_id} and domain <> ${domain} and released_at > ${keptSince(now)}
    ) claimed`.execute(tx)
  return rows[0] ?? { count: 0, next_free_at: null }
}

/** The allowance for look-ups of all domains of the project, by the owner and by the platform. */
export const lookUpAllowance = (project_id: string, pauseMs: number): Allowance => ({
  project_id,
  kind: 'domain_look_ups',
  limit: maxLookUpsPerPause,
  periodMs: pauseMs,
})

const keptSince = (now: Date) => new Date(now.getTime() - releasedDomainPeriodMs)
