import { wildcardOf } from '../core/hosts.ts'
import type { Logger } from '../infra/log.ts'
import { noTerms } from '../services/feeds/locks.ts'
import type { PermanentLink, Route, RoutePreview, RouteSink } from '../services/feeds/routes.ts'
import { openSnapshots } from './snapshot.ts'

export interface RouteTableOptions {
  readonly platformDomain: string
  readonly snapshotDir: string
  readonly log: Logger
  /** How long changes are collected before a snapshot is written. */
  readonly snapshotDelayMs?: number
}

export interface FoundPreview {
  readonly route: Route
  readonly preview: RoutePreview
}

export interface FoundPermanentLink {
  readonly route: Route
  readonly link: PermanentLink
}

/** A site that is served at a host, or redirects from there to another host of its own. */
export interface FoundSite {
  readonly route: Route
  readonly redirect: { readonly status: 301 | 308; readonly host: string } | undefined
}

export interface RouteTable extends RouteSink, AsyncDisposable {
  /** @param host lower-case, without a port */
  find(host: string): FoundSite | undefined
  findPreview(tokenSha256: string): FoundPreview | undefined
  findPermanentLink(deployId: string): FoundPermanentLink | undefined
  /** False while the table may lack a site. */
  readonly connected: boolean
  /** The instant, in milliseconds, up to which the table has every change; 0 for never. A restart does not change it. */
  readonly confirmedMs: number
}

/** `*.` before a host stands for one label. */
interface HostPattern {
  readonly host: string
  readonly found: FoundSite
  readonly untilMs: number
}

/** Every host of the site. The current subdomain is last, so that no other name of the site hides it. */
function hostsOf(route: Route, platformDomain: string): HostPattern[] {
  const { subdomain, former, domains } = route
  const present = `${subdomain}.${platformDomain}`
  const pattern = (host: string, redirect: FoundSite['redirect'], untilMs = Number.POSITIVE_INFINITY) => ({
    host,
    found: { route, redirect },
    untilMs,
  })
  return [
    ...former.map((name) =>
      pattern(`${name.subdomain}.${platformDomain}`, { status: 301, host: present }, Date.parse(name.until)),
    ),
    ...domains.map(({ domain, primary }) => pattern(domain, primary === null ? undefined : { status: 308, host: primary })),
    pattern(present, undefined),
  ]
}

/** Changes of more routes at once are one line of the log. */
const maxLoggedRoutes = 20

/**
 * Every route, in memory. It begins with the last snapshot, keeps the known routes while the feed is away, and accepts a route only
 * when its version is higher than the known one, or when the known one is of another incarnation of the database.
 */
export async function openRouteTable(options: RouteTableOptions): Promise<RouteTable> {
  const { platformDomain, log, snapshotDir: dir, snapshotDelayMs: delayMs } = options
  const snapshots = await openSnapshots<Route>({ dir, name: 'routes', complete, log, delayMs })
  const bySite = new Map<string, Route>()
  const byHost = new Map<string, HostPattern>()
  const byToken = new Map<string, FoundPreview>()
  const byDeploy = new Map<string, FoundPermanentLink>()
  let incarnation: string | undefined
  let connected = false
  let reason: string | undefined

  function forget(route: Route): void {
    bySite.delete(route.site_id)
    for (const { token_sha256 } of route.previews) byToken.delete(token_sha256)
    for (const { deploy_id } of route.permanent) byDeploy.delete(deploy_id)
    for (const { host } of hostsOf(route, platformDomain)) {
      // the name may belong to another site by now
      if (byHost.get(host)?.found.route.site_id === route.site_id) byHost.delete(host)
    }
  }

  function take(given: Route): boolean {
    const known = bySite.get(given.site_id)
    if (known && known.version >= given.version) return false
    const route = withSharedLists(given)
    if (known) forget(known)
    bySite.set(route.site_id, route)
    for (const pattern of hostsOf(route, platformDomain)) byHost.set(pattern.host, pattern)
    for (const preview of route.previews) byToken.set(preview.token_sha256, { route, preview })
    for (const link of route.permanent) byDeploy.set(link.deploy_id, { route, link })
    return true
  }

  const changed = () => snapshots.changed(() => ({ incarnation, entries: [...bySite.values()] }))

  const loaded = await snapshots.load()
  incarnation = loaded.incarnation
  for (const route of loaded.entries) take(route)
  log.info({ routes: bySite.size }, 'routes read from the snapshot')

  return {
    find(host) {
      const pattern = byHost.get(host) ?? byHost.get(wildcardOf(host))
      return pattern && Date.now() < pattern.untilMs ? pattern.found : undefined
    },
    findPreview: (tokenSha256) => byToken.get(tokenSha256),
    findPermanentLink: (deployId) => byDeploy.get(deployId),
    get connected() {
      return connected
    },
    get confirmedMs() {
      return snapshots.confirmedMs
    },

    useIncarnation(given) {
      if (given === incarnation) return
      log.info({ routes: bySite.size, incarnation: given }, 'the database is another one; all routes are replaced')
      incarnation = given
      // lower than every version that is read, in the snapshot as well
      for (const [id, route] of bySite) bySite.set(id, { ...route, version: 0 })
      changed()
    },

    versionOf: (siteId) => bySite.get(siteId)?.version,

    keepOnly(siteIds) {
      const gone = [...bySite.values()].filter((route) => !siteIds.has(route.site_id))
      gone.forEach(forget)
      if (gone.length === 0) return
      log.info({ routes: bySite.size, removed: gone.length }, 'routes removed')
      changed()
    },

    apply(routes, goneSiteIds) {
      const gone = goneSiteIds.map((id) => bySite.get(id)).filter((route) => route !== undefined)
      gone.forEach(forget)
      const taken = routes.filter(take)
      for (const { site_id } of gone) log.info({ site_id }, 'route removed')
      if (taken.length > maxLoggedRoutes) log.info({ routes: bySite.size, changed: taken.length }, 'routes changed')
      else for (const { site_id, version, deploy_id } of taken) log.info({ site_id, version, deploy_id }, 'route changed')
      if (gone.length > 0 || taken.length > 0) changed()
    },

    setConnected(now, why) {
      if (now && !connected) log.info({ routes: bySite.size }, 'route feed connected')
      if (!now && (connected || why !== reason)) log.warn({ reason: why }, 'route feed lost; the known routes stay')
      connected = now
      reason = why
      if (now) snapshots.confirm(Date.now())
    },

    [Symbol.asyncDispose]: () => snapshots[Symbol.asyncDispose](),
  }
}

/** Replaces empty lists by one: most sites have five of them, and each would be one more object for every garbage collection to visit. */
const withSharedLists = (route: Route): Route => ({
  ...route,
  previews: shared(route.previews),
  permanent: shared(route.permanent),
  former: shared(route.former),
  domains: shared(route.domains),
  delivery_files: shared(route.delivery_files),
})
const shared = <T>(list: readonly T[]): readonly T[] => (list.length === 0 ? emptyList : list)
const emptyList: readonly never[] = []

/** Adds the members that snapshots of earlier versions lack. */
const complete = (route: Route): Route => ({ ...later, ...route, lock: route.lock ? { ...laterOfLock, ...route.lock } : null })
const laterOfLock = { consent_version: 0, terms: noTerms }
const later = {
  retained_sha256: null,
  previews: [],
  permanent: [],
  former: [],
  domains: [],
  canonical_urls: false,
  compressed: false,
  delivery_files: [],
  delivery_page: null,
  lock: null,
}
