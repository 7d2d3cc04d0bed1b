import type { Context as Koa } from 'koa'
import type { AccessMode } from '../../core/access.ts'
import { AppError, notFound, secondsUntil } from '../../core/errors.ts'
import { hasMembers } from '../../core/members.ts'
import { preferredLanguage } from '../../core/page-language.ts'
import { returnPath } from '../../core/return-path.ts'
import { gatePaths, proofCookie, proofCookies, visitCookie } from '../../core/visits.ts'
import { gatePage } from '../../infra/gate/page.ts'
import type { GateError, GateState } from '../../infra/gate/state.ts'
import { webPage, webPagePolicy } from '../../infra/web-page.ts'
import type { CodeOutcome, CodeRequest } from '../../services/access/codes.ts'
import { findSiteAt, type LoginLock, type SiteAt } from '../../services/access/find-site-at.ts'
import type { LoginServices } from '../../services/members/login.ts'
import type { MessengerServices } from '../../services/messengers/services.ts'
import type { Admitted } from '../admission.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { setErrorHeaders, statusOf, visibleError } from '../http-errors.ts'
import { accessRefusalPage, goingOnPage } from './access-pages.ts'
import { isFromSameOrigin, type Place, placeOf, receiveFields } from './access-request.ts'
import type { KnownHosts } from './known-hosts.ts'

/** What the login pages of closed sites need. */
export interface AccessDeps extends Deps {
  readonly hosts: KnownHosts
}

/** A form of the login page of a closed site. */
export interface Post {
  readonly koa: Koa
  readonly services: LoginServices & MessengerServices
  readonly place: Place
  readonly site: SiteAt
  readonly lock: LoginLock
  readonly network: string
  readonly fields: ReadonlyMap<string, string>
  readonly to: string
}

/** What becomes of a form, with the page that is shown again when it is refused. */
export interface Answer {
  readonly outcome: CodeOutcome | CodeRequest | { readonly kind: 'malformed' } | NextPage | NextAddress
  readonly asked: AskedState
}

/** Another page comes next. */
export interface NextPage {
  readonly kind: 'page'
  readonly state: GateState
  /** The value of the cookie that proves an address to the forms of the page, when it is a new one. */
  readonly proof?: string
}

/** Another address comes next. */
interface NextAddress {
  readonly kind: 'see'
  readonly path: string
}

/** What signs the cookies of visitors. */
export type Signers = Pick<LoginServices, 'visits' | 'proofs'>

/** A page that may say why its last form was refused. */
type AskedState = Extract<GateState, { readonly error?: GateError }>

export function seeOther(koa: Koa, path: string): void {
  // a ticket leads to another origin, and Chromium lets a form lead there by redirects only if the `form-action` of its page has that origin
  if (koa.method === 'POST' && path.startsWith(`${gatePaths.ticket}?`)) {
    koa.set('refresh', `0; url=${path}`)
    koa.set('content-security-policy', webPagePolicy)
    koa.type = 'text/html'
    koa.body = webPage(goingOnPage(languageOf(koa), path))
  } else {
    koa.status = 303
    koa.set('location', path)
    koa.body = ''
  }
}

export const noSite = () => notFound('there is no site at this host')
export const foreign = () => new AppError('forbidden', 'the form was sent from a page of another site')

/** Answers at the host of a site; what fails becomes a page. */
export async function answering(deps: Deps, koa: Koa, work: (place: Place, network: string) => Promise<void>): Promise<void> {
  try {
    const place = placeOf(koa, deps.config)
    if (!place) throw noSite()
    await work(place, clientNetwork(koa.req))
  } catch (error) {
    const refusal = visibleError(error)
    if (!refusal) deps.log.error({ err: error }, 'login failed')
    const status = refusal ? statusOf[refusal.kind] : 500
    koa.status = status
    koa.type = 'text/html'
    koa.set('content-security-policy', webPagePolicy)
    koa.body = webPage(accessRefusalPage(languageOf(koa), status))
    setErrorHeaders(koa, refusal)
  }
}

export const languageOf = (koa: Koa) => preferredLanguage(koa.get('accept-language'))

/** @throws AppError `not_found` at hosts that redirect, to another host or to https */
export async function siteAt(
  { admission, config, hosts }: AccessDeps,
  { host, isSecure }: Place,
  network: string,
): Promise<SiteAt> {
  const { platformDomain, base } = config.urls
  if (!(await hosts.has(host))) throw noSite()
  const site = await findSiteAt(admission.databaseOf({ kind: 'address', id: network }), platformDomain, host)
  const isHttpsOnly = base.startsWith('https:') && (site?.isSecured || host.endsWith(`.${platformDomain}`))
  if (!site || (isHttpsOnly && !isSecure)) throw noSite()
  return site
}

/** Where a request of a visitor has arrived, and from which network. */
export interface Arrival {
  readonly place: Place
  readonly network: string
}

/** A request of a visitor at a site, which counts for the visitor's network and for the site until it is disposed of. */
interface Entered extends Disposable {
  readonly caller: Admitted
  readonly site: SiteAt
  /** Their database is limited to the share of the site's project. */
  readonly services: LoginServices & MessengerServices
}

/** @throws AppError as {@link siteAt}; `too_many_requests`, `unavailable` */
export async function enterSite(deps: AccessDeps, signers: Signers, { place, network }: Arrival): Promise<Entered> {
  using entered = new DisposableStack()
  const caller = entered.use(deps.admission.enter({ kind: 'address', id: network }))
  const site = await siteAt(deps, place, network)
  entered.use(deps.admission.enter({ kind: 'site', id: site.site_id }))
  const db = deps.admission.databaseOf({ kind: 'project', id: site.project_id })
  const held = entered.move()
  return { caller, site, services: { ...deps, db, ...signers }, [Symbol.dispose]: () => held.dispose() }
}

/** A form that visitors of closed sites send. */
export interface GateForm {
  readonly path: string
  /** The ways of closing a site whose pages have the form. */
  readonly modes: readonly AccessMode[]
  readonly take: (post: Post) => Promise<Answer>
}

/** Receives a form at the host of a site: only pages of the same origin may send it. */
export async function receiveForm(
  deps: AccessDeps,
  signers: Signers,
  koa: Koa,
  { place, network, modes, take }: GateForm & Arrival,
): Promise<void> {
  using entered = await enterSite(deps, signers, { place, network })
  const { caller, site, services } = entered
  const { lock } = site
  if (!isFromSameOrigin(koa, place)) {
    if (!lock) throw foreign()
    return showPage(koa, site, { kind: lock.mode, error: 'origin' }, '/')
  }
  const fields = await receiveFields(koa, caller)
  const to = returnPath(fields.get('to'))
  // was opened since the page was shown
  if (!lock) return seeOther(koa, to)
  // is closed in another way since the page was shown
  if (!modes.includes(lock.mode)) return showPage(koa, site, { kind: lock.mode }, to)
  const post: Post = { koa, services, place, site, lock, network, fields, to }
  show(deps, post, await take(post))
}

const maxTypedCodeLength = 20

/** The code in a form, without the spaces and hyphens that visitors put between its digits. */
export const typedCode = (fields: Post['fields']) => (fields.get('code') ?? '').slice(0, maxTypedCodeLength).replace(/[\s-]/g, '')

/** Why a form is shown again. */
const errors = { wrong: 'wrong', malformed: 'wrong', full: 'full', expired: 'expired', wait: 'wait' } as const satisfies Record<
  string,
  GateError
>

export function show(deps: Deps, { koa, services, place, site, to }: Post, { outcome, asked }: Answer): void {
  if ('afterwards' in outcome && outcome.afterwards) runAfterwards(deps, koa, outcome.afterwards)
  if (outcome.kind === 'granted') {
    koa.append('set-cookie', visitCookie(outcome.cookie, outcome.maxAgeSeconds, place.isSecure))
    if (proofsIn(koa, place).length > 0) koa.append('set-cookie', proofCookie('', place.isSecure))
    seeOther(koa, to)
  } else if (outcome.kind === 'requested') {
    showPage(koa, site, { kind: 'code', email: outcome.email, challenge: outcome.challenge }, to)
  } else if (outcome.kind === 'page') {
    if (outcome.proof !== undefined) koa.append('set-cookie', proofCookie(outcome.proof, place.isSecure))
    showPage(koa, site, outcome.state, to)
  } else if (outcome.kind === 'see') {
    seeOther(koa, outcome.path)
  } else if (outcome.kind === 'ended') {
    showPage(koa, site, { kind: 'ended' }, to)
  } else if (outcome.kind === 'changed') {
    // the page of the lock as it is now
    seeOther(koa, to)
  } else {
    if (outcome.kind === 'wait') koa.set('retry-after', String(secondsUntil(outcome.until, services.clock())))
    const error = errors[outcome.kind]
    showPage(koa, site, { ...asked, error }, to)
  }
}

/** The cookies of a request that may prove an address. */
export const proofsIn = (koa: Koa, { isSecure }: Place) => proofCookies(koa.get('cookie'), isSecure)

/** Runs work whose duration the visitor must not see, also for a visitor who has left already. */
function runAfterwards({ log }: Deps, { res }: Koa, work: () => Promise<void>): void {
  const run = () => void work().catch((error: unknown) => log.error({ err: error }, 'work after a login page failed'))
  if (res.destroyed || res.socket === null || res.socket.destroyed) run()
  else res.once('close', run)
}

export function showPage(koa: Koa, { lock, brand, terms }: SiteAt, state: GateState, to: string): void {
  const isOpenToAll = lock !== null && hasMembers(lock.mode)
  const { status, headers, body } = gatePage({ lang: languageOf(koa), state, brand, terms, isOpenToAll, to })
  koa.status = status
  for (let i = 0; i < headers.length; i += 2) koa.set(headers[i] ?? '', headers[i + 1] ?? '')
  koa.body = body
}
