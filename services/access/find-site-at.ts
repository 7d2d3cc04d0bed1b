import { sql } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import { withPrimaries } from '../../core/domains.ts'
import { wildcardOf } from '../../core/hosts.ts'
import type { Db } from '../../infra/db/database.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'
import { type RouteBrand, type RouteTerms, termsOfSite } from '../feeds/locks.ts'

/** A site as its login sees it. */
export interface SiteAt {
  readonly site_id: string
  readonly project_id: string
  /** What closes the site; null while it is open to everybody. */
  readonly lock: LoginLock | null
  readonly brand: RouteBrand | null
  readonly terms: RouteTerms
  /** Whether the host is a custom domain with a certificate. */
  readonly isSecured: boolean
}

export interface LoginLock {
  readonly site_id: string
  readonly mode: AccessMode
  readonly epoch: string
  readonly sealed_password: string | null
  readonly expires_at: Date | null
}

interface Row extends Omit<LoginLock, 'mode'> {
  readonly project_id: string
  readonly mode: AccessMode | null
  readonly brand: RouteBrand | null
  readonly terms: RouteTerms
  readonly domains: readonly { readonly domain: string; readonly secured: boolean }[]
}

/**
 * The site that is served at a host. Undefined for hosts that serve none: unknown ones, those that redirect to another host of their site, sites
 * in the trash, and sites that are disabled or suspended.
 * @param host in lower case, without a port
 */
export async function findSiteAt(db: Db, platformDomain: string, host: string): Promise<SiteAt | undefined> {
  const suffix = `.${platformDomain}`
  const subdomain = host.endsWith(suffix) ? host.slice(0, -suffix.length) : null
  const names = [host, wildcardOf(host)]
  const [site] = await readSite(db, subdomain, names)
  if (!site) return undefined
  const { site_id, project_id, mode, epoch, sealed_password, expires_at, brand, terms } = site
  const lock = mode === null ? null : { site_id, mode, epoch, sealed_password, expires_at }
  const found = { site_id, project_id, lock, brand, terms }
  if (subdomain !== null) return { ...found, isSecured: false }
  const domains = withPrimaries(site.domains)
  const domain = names.map((name) => domains.find((one) => one.domain === name)).find((one) => one !== undefined)
  if (!domain || domain.primary !== null) return undefined
  return { ...found, isSecured: site.domains.some((one) => one.domain === domain.domain && one.secured) }
}

async function readSite(db: Db, subdomain: string | null, [exact, wildcard]: readonly string[]): Promise<Row[]> {
  const siteOf = (domain: string | undefined) =>
    sql`(select domains.site_id from domains where domains.domain = ${domain} and ${isVerifiedDomain})`
  const { rows } = await sql<Row>`
    select sites.id as site_id, sites.project_id, lock.mode, lock.epoch, lock.sealed_password, lock.expires_at, ${termsOfSite} as terms,
      (select to_jsonb(brand) - '{site_id,project_id}'::text[] from access_brands brand where brand.site_id = sites.id) as brand,
      coalesce((
        select jsonb_agg(jsonb_build_object('domain', domains.domain, 'secured', certificates.certificate is not null) order by domains.id)
        from domains left join certificates on certificates.domain_id = domains.id
        where domains.site_id = sites.id and ${isVerifiedDomain}), '[]') as domains
    from sites join projects on projects.id = sites.project_id left join access_locks lock on lock.site_id = sites.id
    where sites.id = case when ${subdomain}::text is null then coalesce(${siteOf(exact)}, ${siteOf(wildcard)})
        else (select id from sites where sites.subdomain = ${subdomain}) end
      and sites.deletion_scheduled_at is null and sites.enabled and not projects.suspended`.execute(db)
  return rows
}
