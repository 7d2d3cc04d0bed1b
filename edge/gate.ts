import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import { preferredLanguage } from '../core/page-language.ts'
import { maxReturnLength } from '../core/return-path.ts'
import { gatePaths, stateOfVisit, type VisitState, visitCookies } from '../core/visits.ts'
import type { Visit, VisitPlace, Visits } from '../infra/crypto/visits.ts'
import { gatePage } from '../infra/gate/page.ts'
import type { RouteLock } from '../services/feeds/locks.ts'
import type { Route } from '../services/feeds/routes.ts'
import type { Answered } from './answered.ts'
import type { Content } from './content.ts'
import { fixedImage } from './fixed-files.ts'
import { acceptsHtml, isNavigation } from './navigation.ts'
import { pages } from './pages.ts'
import { type Exchange, type Overlay, sendFile, sendPage } from './respond.ts'
import type { SiteFile } from './site-files.ts'

export interface GateOptions {
  /** When undefined, no visit passes. */
  readonly visits?: Visits | undefined
  readonly routes: {
    /** The instant, in milliseconds, up to which the locks are known. */
    readonly confirmedMs: number
  }
  readonly content: Content
}

export interface Gate {
  /**
   * Answers a request to a closed site.
   * @param show answers when the visitor may pass; no shared cache keeps its response
   */
  answer(exchange: Exchange, route: Route, lock: RouteLock, wanted: WantedPage, show: () => Answered): Answered
  /** Answers a request to a permanent link of a closed site, as {@link answer}: only sites have login pages, so visitors are sent to that of the site. */
  answerLink(exchange: Exchange, route: Route, lock: RouteLock, wanted: WantedLink, show: () => Answered): Answered
}

/** What a visitor of a closed site asked for. */
export interface WantedPage {
  readonly host: string
  /** Decoded. */
  readonly path: string
  readonly isSecure: boolean
  /** The path and query to which the login returns. */
  readonly address: () => string
}

/** What a visitor of a permanent link asked for. */
export interface WantedLink extends Pick<WantedPage, 'host' | 'isSecure'> {
  /** The address at which the site lets visitors in to the link. */
  readonly login: () => string
}

const ofVisitor = {
  vary: 'Cookie, X-Plinth-Bypass',
  // browsers send the cookie along when another site below the same domain embeds a script or an image, which could read it that way
  defaults: ['cross-origin-resource-policy', 'same-origin'],
} as const
/** The responses to visitors who were let in. The rules of a site never set these headers (`core/site-rules/header-names.ts`). */
const granted: Overlay = {
  ...ofVisitor,
  cacheControl: (own) => (own === 'no-store' ? own : 'private, no-cache'),
  headers: [],
}

/**
 * For how long locks hold that may have changed since: an edge without PostgreSQL does not hear that somebody was signed out. Afterwards closed
 * sites open for nobody.
 */
const maxLockAgeMs = 10 * 60_000
/** Only visits that were issued are kept, about 200 bytes each. */
const maxKnownVisits = 10_000
/** Longer ones are not hashed. */
const maxBypassLength = 200

/** Lets visitors of closed sites pass who have logged in, and programs with the bypass token (addendum E18, E36). Nothing here waits. */
export function createGate({ visits, routes, content }: GateOptions): Gate {
  // checking a signature takes longer than everything else that is done for a small file
  const known = new LRUCache<string, Visit>({ max: maxKnownVisits })

  function read(place: VisitPlace, text: string): Visit | undefined {
    const key = `${place.site_id} ${place.epoch} ${place.host} ${text}`
    const earlier = known.get(key)
    if (earlier) return earlier
    const visit = visits?.read(place, text)
    if (visit) known.set(key, visit)
    return visit
  }

  function decide(lock: RouteLock, place: VisitPlace, headers: IncomingHttpHeaders, isSecure: boolean): Decision {
    const nowMs = Date.now()
    // an instant that does not parse is no reason to let anybody in
    if (lock.expires_at !== null && !(nowMs < Date.parse(lock.expires_at))) return 'ended'
    let decision: Decision = 'closed'
    for (const text of visitCookies(headers.cookie ?? '', isSecure)) {
      const visit = read(place, text)
      const state = visit === undefined ? 'closed' : stateOfVisit(visit, lock, nowMs)
      if (state === 'pass') return state
      if (state !== 'closed') decision = state
    }
    return hasBypass(lock, headers) ? 'pass' : decision
  }

  // in both directions, because a clock may be set back
  const isOutdated = () => Math.abs(Date.now() - routes.confirmedMs) > maxLockAgeMs

  return {
    answer(exchange, { site_id }, lock, { host, path, isSecure, address }, show) {
      if (isOutdated()) return sendPage(exchange, pages.tryAgain)
      if (path.startsWith(gatePaths.brand)) {
        const image = brandImage(lock, path)
        return image ? sendFile(exchange, content, image, 200) : sendPage(exchange, pages.missingFile)
      }
      const { headers } = exchange.req
      const decision = decide(lock, { site_id, host, epoch: lock.epoch }, headers, isSecure)
      if (decision !== 'pass') return sendLogin(exchange, lock, decision, address)
      exchange.overlay = granted
      return show()
    },

    answerLink(exchange, { site_id }, lock, { host, isSecure, login }, show) {
      if (isOutdated()) return sendPage(exchange, pages.tryAgain)
      const { headers } = exchange.req
      const decision = decide(lock, { site_id, host, epoch: lock.epoch }, headers, isSecure)
      if (decision !== 'pass') return wantsPage(headers) ? sendOn(exchange, login()) : sendPage(exchange, bareRefusal(decision))
      exchange.overlay = { ...granted, ...exchange.overlay, ...ofVisitor }
      return show()
    },
  }
}

/** What becomes of a request: what the best of its visits says, unless the access to the site has ended for all visitors. */
type Decision = VisitState | 'ended'

/** Node joins several headers of the name to one that no token equals. */
function hasBypass({ bypass_sha256 }: RouteLock, headers: IncomingHttpHeaders): boolean {
  const token = headers['x-plinth-bypass']
  if (bypass_sha256 === null || typeof token !== 'string' || token.length > maxBypassLength) return false
  const known = Buffer.from(bypass_sha256, 'hex')
  const given = createHash('sha256').update(token).digest()
  return known.length === given.length && timingSafeEqual(known, given)
}

type Refusal = Exclude<Decision, 'pass'>

const wantsPage = (headers: IncomingHttpHeaders) => isNavigation(headers) || acceptsHtml(headers)
const bareRefusal = (decision: Refusal) => (decision === 'ended' ? pages.accessEnded : pages.closed)

/** The same for every path, except that the page returns to the one that was asked for. */
function sendLogin(exchange: Exchange, lock: RouteLock, decision: Refusal, address: () => string): void {
  const { headers, method } = exchange.req
  if (decision === 'renew' && method === 'GET' && isNavigation(headers)) {
    sendRenewal(exchange, address())
  } else if (wantsPage(headers)) {
    const kind = decision === 'ended' || decision === 'consent' ? decision : lock.mode
    const { brand, terms } = lock
    const lang = preferredLanguage(headers['accept-language'])
    sendPage(exchange, gatePage({ lang, state: { kind }, brand, terms, isOpenToAll: false, to: address() }))
  } else {
    sendPage(exchange, bareRefusal(decision))
  }
}

/** Only for browsers that open a page: nothing else comes back from there. */
function sendRenewal(exchange: Exchange, address: string): void {
  const to = address.length <= maxReturnLength ? address : '/'
  sendOn(exchange, `${gatePaths.renew}?to=${encodeURIComponent(to)}`)
}

/** Sends a visitor to where visits are granted, with a GET. */
function sendOn(exchange: Exchange, location: string): void {
  const headers = ['Location', location, 'Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
  sendPage(exchange, { status: 303, headers, body: Buffer.alloc(0) })
}

/** The images of the login page, which everybody may see. */
function brandImage({ brand }: RouteLock, path: string): SiteFile | undefined {
  if (!brand) return undefined
  const { logo_sha256, logo_size, favicon_sha256, favicon_size } = brand
  if (path === `${gatePaths.brand}logo.webp`) return fixedImage(path, logo_sha256, logo_size)
  return path === `${gatePaths.brand}favicon.webp` ? fixedImage(path, favicon_sha256, favicon_size) : undefined
}
