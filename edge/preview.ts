import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { encodePath, type RequestTarget } from '../core/request-path.ts'
import { ticketRequestPath } from '../core/tickets.ts'
import { deployIdOf, isSameToken, type PermanentTokens } from '../infra/crypto/permanent-tokens.ts'
import { hashPreviewToken } from '../infra/crypto/preview-tokens.ts'
import type { Route } from '../services/feeds/routes.ts'
import type { Content } from './content.ts'
import type { Gate } from './gate.ts'
import { isNavigation } from './navigation.ts'
import type { Origins } from './origins.ts'
import { pages } from './pages.ts'
import { type Exchange, type Overlay, sendPage, sendRedirect } from './respond.ts'
import type { FoundPermanentLink, FoundPreview } from './routes.ts'
import { findInDeploy, sendFound } from './serve.ts'

export interface PreviewOptions {
  /** Links are `<previewUrl>/<token>/`. */
  readonly previewUrl: string
  /** Sites are `<subdomain>.<platformDomain>`. */
  readonly platformDomain: string
  readonly routes: {
    findPreview(tokenSha256: string): FoundPreview | undefined
    findPermanentLink(deployId: string): FoundPermanentLink | undefined
    readonly connected: boolean
  }
  /** When undefined, no permanent link opens. */
  readonly permanentTokens?: PermanentTokens | undefined
  readonly content: Content
}

interface Parts extends PreviewOptions {
  readonly gate: Gate
  readonly origins: Origins
}

export interface Previews {
  /** The changes to every response of a preview host; undefined for other hosts. */
  overlayOf(host: string): Overlay | undefined
  /** Answers a request to a preview host. */
  answer(exchange: Exchange, host: string, target: RequestTarget): Promise<void>
}

/** The deploy that a link shows, and the site to which it belongs. */
interface Shown {
  readonly route: Route
  readonly manifest_sha256: string
  readonly isPermanent: boolean
}

/** Below it the platform answers; a closed site has nothing of its own there. */
const platformPath = '/__svc/'
/** 32 bytes in base32. */
const tokenPattern = /^[a-z2-7]{52}$/
/** How long to wait for an unknown link: the notification of a new one may still be on its way. */
const graceMs = 100
/** The most requests that wait; more of them, which are guesses, are answered at once. */
const maxWaiting = 1000

/**
 * Shows deploys to everyone with a preview link (addendum E9) or a permanent one (E34): to browsers at an origin of its own, `<token>.<preview host>`, where the deploy is at
 * the root and shares nothing with another preview; to all other clients below `/<token>/` of the preview host. Preview links of closed sites open
 * without a login, unless their owner has closed them as well (E36); then they are unknown. Permanent links are closed with their site: each
 * origin has visits of its own, which its visitors get by tickets.
 */
export function createPreviews({ previewUrl, platformDomain, routes, permanentTokens, content, gate, origins }: Parts): Previews {
  const origin = new URL(previewUrl)
  const underHost = `.${origin.hostname}`
  let waiting = 0

  function findPermanent(token: string): Shown | undefined {
    const found = routes.findPermanentLink(deployIdOf(token) ?? '')
    if (!found || !permanentTokens) return undefined
    const { deploy_id, generation, manifest_sha256 } = found.link
    return isSameToken(token, permanentTokens(deploy_id, generation))
      ? { route: found.route, manifest_sha256, isPermanent: true }
      : undefined
  }

  function findNow(token: string): Shown | undefined {
    const found = routes.findPreview(hashPreviewToken(token))
    if (!found) return findPermanent(token)
    const { route, preview } = found
    return route.lock?.previews_closed ? undefined : { route, manifest_sha256: preview.manifest_sha256, isPermanent: false }
  }

  /** Looks up an unknown token a second time after a moment. */
  async function find(token: string): Promise<Shown | undefined> {
    const known = findNow(token)
    if (known || waiting >= maxWaiting) return known
    waiting += 1
    try {
      await setTimeout(graceMs)
    } finally {
      waiting -= 1
    }
    return findNow(token)
  }

  return {
    overlayOf(host) {
      if (!host.endsWith(origin.hostname)) return undefined
      if (host === origin.hostname) return sharedOrigin
      return host.endsWith(underHost) ? ownOrigin : undefined
    },

    async answer(exchange, host, { path: whole, query }) {
      const { headers } = exchange.req
      const { token, path, prefix } =
        host === origin.hostname ? splitPath(whole) : { token: host.slice(0, -underHost.length), path: whole, prefix: '' }
      if (!tokenPattern.test(token)) return sendPage(exchange, pages.unknownPreview)
      const found = await find(token)
      if (!found) return sendPage(exchange, routes.connected ? pages.unknownPreview : pages.tryAgain)
      const { route, manifest_sha256, isPermanent } = found
      if (route.trashed) return sendPage(exchange, pages.unknownPreview)
      if (route.suspended) return sendPage(exchange, pages.unavailable)
      if (isServiceWorker(headers)) return sendPage(exchange, pages.noServiceWorker)
      if (prefix !== '' && isNavigation(headers)) {
        const { protocol, port } = origin
        const at = `${protocol}//${token}${underHost}${port === '' ? '' : `:${port}`}`
        return sendRedirect(exchange, 307, at + encodePath(path || '/') + query)
      }
      if (path === '') return sendRedirect(exchange, 301, `${prefix}/${query}`)
      const { canonical_urls, lock } = route
      const shown = { manifest_sha256, retained_sha256: null, canonical_urls }
      const reserved = exchange.overlay?.reserved
      const show = async () =>
        await sendFound(exchange, content, await findInDeploy(content, { ...shown, path, query, prefix, reserved }))
      if (!lock || !isPermanent) return await show()
      if (path.startsWith(platformPath)) return sendPage(exchange, pages.missingFile)
      const isSecure = origins.isSecure(exchange.req)
      const login = () =>
        origins.of(`${route.subdomain}.${platformDomain}`, exchange.req) + ticketRequestPath(token, encodePath(path) + query)
      await gate.answerLink(exchange, route, lock, { host, isSecure, login }, show)
    },
  }
}

function overlay(more: readonly string[] = [], alsoReserved: readonly string[] = []): Overlay {
  const headers = ['X-Robots-Tag', 'noindex', 'Referrer-Policy', 'same-origin', ...more]
  const reserved = new Set([...headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()), ...alsoReserved])
  return { headers, reserved, cacheControl: () => 'private, no-store' }
}

/** Headers that browsers remember for a whole origin. Reports of network errors would tell one preview the links of all others. */
const ofWholeOrigins = [
  ['nel', 'report-to', 'reporting-endpoints', 'strict-transport-security', 'origin-agent-cluster', 'service-worker-allowed'],
  ['accept-ch', 'critical-ch', 'use-as-dictionary', 'speculation-rules', 'set-login', 'public-key-pins', 'expect-ct'],
].flat()

const ownOrigin = overlay()
/** All previews share this origin, so nothing from it may run, and none of them may set anything for it. */
const sharedOrigin = overlay(['Content-Security-Policy', 'sandbox'], ofWholeOrigins)

/** `/<token>/<path>`; the path is empty when nothing follows the token. */
function splitPath(whole: string): { token: string; path: string; prefix: string } {
  const slash = whole.indexOf('/', 1)
  const end = slash === -1 ? whole.length : slash
  return { token: whole.slice(1, end), path: whole.slice(end), prefix: whole.slice(0, end) }
}

/** A service worker would go on serving the preview after the link has ended. */
const isServiceWorker = (headers: IncomingHttpHeaders) => headers['service-worker'] === 'script'
