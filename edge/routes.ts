import type { Route, RoutePreview, RouteSink } from '../infra/db/routes.ts'
import type { Logger } from '../infra/log.ts'
import { openSnapshots } from './snapshot.ts'

export interface RouteTableOptions {
  readonly snapshotDir: string
  readonly log: Logger
  /** How long changes are gathered before a snapshot is written. */
  readonly snapshotDelayMs?: number
}

export interface FoundPreview {
  readonly route: Route
  readonly preview: RoutePreview
}

export interface RouteTable extends RouteSink, AsyncDisposable {
  find(subdomain: string): Route | undefined
  findPreview(tokenSha256: string): FoundPreview | undefined
  /** False while a site may exist that the table does not know. */
  readonly connected: boolean
}

/**
 * Every route in memory. It begins with the last snapshot, keeps what it knows while the feed is away, and takes a route only
 * when its version is higher than the known one.
 */
export async function openRouteTable(options: RouteTableOptions): Promise<RouteTable> {
  const { log, snapshotDelayMs = 1000 } = options
  const snapshots = await openSnapshots(options.snapshotDir, log)
  const bySite = new Map<string, Route>()
  const bySubdomain = new Map<string, Route>()
  const byToken = new Map<string, FoundPreview>()
  let connected = false
  let reason: string | undefined

  function forget(route: Route): void {
    bySite.delete(route.site_id)
    for (const { token_sha256 } of route.previews) byToken.delete(token_sha256)
    // the name may be another site's by now
    if (bySubdomain.get(route.subdomain)?.site_id === route.site_id) bySubdomain.delete(route.subdomain)
  }

  function take(route: Route): boolean {
    const known = bySite.get(route.site_id)
    if (known && known.version >= route.version) return false
    if (known) forget(known)
    bySite.set(route.site_id, route)
    bySubdomain.set(route.subdomain, route)
    for (const preview of route.previews) byToken.set(preview.token_sha256, { route, preview })
    return true
  }

  let timer: NodeJS.Timeout | undefined
  let saving: Promise<void> = Promise.resolve()
  let lastSaveMs = 0

  function save(): void {
    timer = undefined
    saving = saving.then(async () => {
      const startedAt = performance.now()
      try {
        await snapshots.save([...bySite.values()])
      } catch (error) {
        log.warn({ err: error }, 'route snapshot could not be written')
      }
      lastSaveMs = performance.now() - startedAt
    })
  }

  /** A table that is large to write is written more rarely. */
  function changed(): void {
    timer ??= setTimeout(save, Math.max(snapshotDelayMs, lastSaveMs * 20))
  }

  for (const route of await snapshots.load()) take(route)
  log.info({ routes: bySite.size }, 'routes read from the snapshot')

  return {
    find: (subdomain) => bySubdomain.get(subdomain),
    findPreview: (tokenSha256) => byToken.get(tokenSha256),
    get connected() {
      return connected
    },

    replaceAll(routes) {
      const present = new Set(routes.map((route) => route.site_id))
      const gone = [...bySite.values()].filter((route) => !present.has(route.site_id))
      gone.forEach(forget)
      const taken = routes.filter(take)
      if (gone.length === 0 && taken.length === 0) return
      log.info({ routes: bySite.size, changed: taken.length, removed: gone.length }, 'routes read from the database')
      changed()
    },

    apply(routes, goneSiteIds) {
      const gone = goneSiteIds.map((id) => bySite.get(id)).filter((route) => route !== undefined)
      gone.forEach(forget)
      const taken = routes.filter(take)
      for (const { site_id } of gone) log.info({ site_id }, 'route removed')
      for (const { site_id, version, deploy_id } of taken) log.info({ site_id, version, deploy_id }, 'route changed')
      if (gone.length > 0 || taken.length > 0) changed()
    },

    setConnected(now, why) {
      if (now && !connected) log.info({ routes: bySite.size }, 'route feed connected')
      if (!now && (connected || why !== reason)) log.warn({ reason: why }, 'route feed lost; the known routes stay')
      connected = now
      reason = why
    },

    async [Symbol.asyncDispose]() {
      if (timer) {
        clearTimeout(timer)
        save()
      }
      await saving
    },
  }
}
