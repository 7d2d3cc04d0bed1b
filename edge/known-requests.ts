import type { IncomingMessage } from 'node:http'
import type { Origins } from './origins.ts'
import type { FoundSite } from './routes.ts'
import type { SiteFile } from './site-files.ts'

/** Requests that are remembered. Each may keep a prepared file in memory, about 2 KiB. */
const maxRequests = 4096

/** The requests of one `Host` header. */
interface KnownHost {
  /** The host in its usual form. */
  readonly host: string
  /** What the host had when its files were found. */
  readonly found: FoundSite
  /** By the target of the request. */
  readonly answers: Map<string, KnownAnswer>
}

export interface KnownAnswer {
  readonly siteId: string
  readonly file: SiteFile
  /** Whether its background variants may be used. */
  readonly compressed: boolean
}

/**
 * Which file answers a request for a page or asset of an open site at its own address. Host, target and serving rules are evaluated once for each
 * route: most requests are repetitions, and evaluating them costs as much as sending a small file.
 */
export interface KnownRequests {
  /** Undefined when the request has to be evaluated. @param rawHost its `Host` header */
  find(req: IncomingMessage, rawHost: string): KnownAnswer | undefined
  /** @param host in its usual form @param found what it has now */
  remember(req: IncomingMessage, rawHost: string, host: string, found: FoundSite, file: SiteFile): void
}

interface Routes {
  find(host: string): FoundSite | undefined
}

/** @param routes tell what a host has now; anything else than before makes its requests unknown */
export function createKnownRequests(routes: Routes, origins: Pick<Origins, 'toSecure'>): KnownRequests {
  const hosts = new Map<string, KnownHost>()
  let count = 0
  return {
    find(req, rawHost) {
      const known = hosts.get(rawHost)
      const answer = known?.answers.get(req.url ?? '')
      if (known === undefined || answer === undefined || routes.find(known.host) !== known.found) return undefined
      return origins.toSecure(known.host, req) === undefined ? answer : undefined
    },
    remember({ url = '' }, rawHost, host, found, file) {
      // all at once, because keeping the order of use would cost every request something
      if (count >= maxRequests) {
        hosts.clear()
        count = 0
      }
      count += 1
      const known = hosts.get(rawHost)
      const { site_id: siteId, compressed } = found.route
      const answer = { siteId, file, compressed }
      if (known?.found === found) known.answers.set(url, answer)
      else hosts.set(rawHost, { host, found, answers: new Map([[url, answer]]) })
    },
  }
}
