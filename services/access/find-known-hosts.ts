import { sql } from 'kysely'
import { wildcardOf } from '../../core/hosts.ts'
import type { Db } from '../../infra/db/database.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'

/**
 * Those of the hosts that belong to a site, whatever its state is.
 * @param hosts in lower case, without ports
 */
export async function findKnownHosts(db: Db, platformDomain: string, hosts: readonly string[]): Promise<ReadonlySet<string>> {
  const suffix = `.${platformDomain}`
  const subdomains = hosts.filter((host) => host.endsWith(suffix)).map((host) => host.slice(0, -suffix.length))
  const names = hosts.filter((host) => !host.endsWith(suffix)).flatMap((host) => [host, wildcardOf(host)])
  const { rows } = await sql<{ host: string }>`
    select sites.subdomain || ${suffix}::text as host from sites where sites.subdomain = any(${subdomains}::text[])
    union all
    select domains.domain from domains where domains.domain = any(${names}::text[]) and ${isVerifiedDomain}`.execute(db)
  const found = new Set(rows.map(({ host }) => host))
  return new Set(hosts.filter((host) => found.has(host) || found.has(wildcardOf(host))))
}
