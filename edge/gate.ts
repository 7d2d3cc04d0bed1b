import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import { hasMembers } from '../core/members.ts'
import { preferredLanguage } from '../core/page-language.ts'
import { gatePaths, isRenewable, visitCookies } from '../core/visits.ts'
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

/** The responses to visitors who were let in. The rules of a site never set these headers (`core/site-rules/header-names.ts`). */
const granted: Overlay = {
  cacheControl: (own) => (own === 'no-store' ? own : 'private, no-cache'),
  vary: 'Cookie, X-Plinth-Bypass',
  headers: [],
  // browsers send the cookie along when another site below the same domain embeds a script or an image, which could read it that way
  defaults: ['cross-origin-resource-policy', 'same-origin'],
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
      const reached = visit === undefined ? 'closed' : reachedBy(visit, lock, nowMs)
      if (reached === 'pass') return reached
      if (reached !== 'closed') decision = reached
    }
    return hasBypass(lock, headers) ? 'pass' : decision
  }

  return {
    answer(exchange, { site_id }, lock, { host, path, isSecure, address }, show) {
      // in both directions, because a clock may be set back
      if (Math.abs(Date.now() - routes.confirmedMs) > maxLockAgeMs) return sendPage(exchange, pages.tryAgain)
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
  }
}

/**
 * What becomes of a request: `consent` and `renew` are for visitors who were let in, and have to agree to the documents of the site again or to be
 * looked up in their messenger again. `ended` is the lock.
 */
type Decision = 'pass' | 'consent' | 'renew' | 'closed' | 'ended'

function reachedBy({ subject, generation, consent, until }: Visit, lock: RouteLock, nowMs: number): Exclude<Decision, 'ended'> {
  if (!(generation >= lowestGeneration(lock, subject))) return 'closed'
  if (!(nowMs < until.getTime())) return lock.mode === 'subscribers' && isRenewable(until, new Date(nowMs)) ? 'renew' : 'closed'
  return !(consent >= lock.consent_version) && asksForConsent(lock) ? 'consent' : 'pass'
}

const asksForConsent = ({ mode, terms }: RouteLock) => hasMembers(mode) && terms.consent_mode !== 'none'

const lowestGeneration = ({ generations }: RouteLock, subject: string) =>
  generations.find((raised) => raised.subject === subject)?.generation ?? 0

/** Node joins several headers of the name to one that no token equals. */
function hasBypass({ bypass_sha256 }: RouteLock, headers: IncomingHttpHeaders): boolean {
  const token = headers['x-plinth-bypass']
  if (bypass_sha256 === null || typeof token !== 'string' || token.length > maxBypassLength) return false
  const known = Buffer.from(bypass_sha256, 'hex')
  const given = createHash('sha256').update(token).digest()
  return known.length === given.length && timingSafeEqual(known, given)
}

/** The same for every path, except that the page returns to the one that was asked for. */
function sendLogin(exchange: Exchange, lock: RouteLock, decision: Exclude<Decision, 'pass'>, address: () => string): void {
  const { headers, method } = exchange.req
  if (decision === 'renew' && method === 'GET' && isNavigation(headers)) {
    sendRenewal(exchange, address())
  } else if (isNavigation(headers) || acceptsHtml(headers)) {
    const kind = decision === 'ended' || decision === 'consent' ? decision : lock.mode
    const { brand, terms } = lock
    const lang = preferredLanguage(headers['accept-language'])
    sendPage(exchange, gatePage({ lang, state: { kind }, brand, terms, isOpenToAll: false, to: address() }))
  } else {
    sendPage(exchange, decision === 'ended' ? pages.accessEnded : pages.closed)
  }
}

/** Longer addresses are not returned to. */
const maxReturnLength = 2048

/** Only for browsers that open a page: nothing else comes back from there. */
function sendRenewal(exchange: Exchange, address: string): void {
  const to = address.length <= maxReturnLength ? address : '/'
  const headers = ['Location', `${gatePaths.renew}?to=${encodeURIComponent(to)}`, 'Cache-Control', 'no-store']
  sendPage(exchange, { status: 303, headers: [...headers, 'X-Content-Type-Options', 'nosniff'], body: Buffer.alloc(0) })
}

/** The images of the login page, which everybody may see. */
function brandImage({ brand }: RouteLock, path: string): SiteFile | undefined {
  if (!brand) return undefined
  const { logo_sha256, logo_size, favicon_sha256, favicon_size } = brand
  if (path === `${gatePaths.brand}logo.webp`) return fixedImage(path, logo_sha256, logo_size)
  return path === `${gatePaths.brand}favicon.webp` ? fixedImage(path, favicon_sha256, favicon_size) : undefined
}
