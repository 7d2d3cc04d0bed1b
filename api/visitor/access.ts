import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { maxPasswordLength } from '../../core/access.ts'
import { deviceOf } from '../../core/access-login.ts'
import { isPlainAddress } from '../../core/emails.ts'
import { AppError, notFound, secondsUntil } from '../../core/errors.ts'
import { preferredLanguage } from '../../core/page-language.ts'
import { returnPath } from '../../core/return-path.ts'
import { isUuid } from '../../core/uuid.ts'
import { gatePaths, visitCookie } from '../../core/visits.ts'
import { required } from '../../infra/config.ts'
import { createVisits, type Visits } from '../../infra/crypto/visits.ts'
import { type GateError, type GateState, gatePage } from '../../infra/gate-page.ts'
import { webPage, webPagePolicy } from '../../infra/web-page.ts'
import { type CodeOutcome, type CodeRequest, loginWithCode, requestCode } from '../../services/access/codes.ts'
import { findSiteAt, type LoginLock, type SiteAt } from '../../services/access/find-site-at.ts'
import { loginWithPassword } from '../../services/access/login.ts'
import type { Services } from '../../services/services.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { setErrorHeaders, statusOf, visibleError } from '../http-errors.ts'
import { accessRefusalPage } from './access-pages.ts'
import { isFromSameOrigin, type Place, placeOf, receiveFields } from './access-request.ts'

const maxCodeLength = 20

/** A form of the login page of a closed site. */
interface Post {
  readonly koa: Koa
  readonly services: Services & { readonly visits: Visits }
  readonly place: Place
  readonly site: SiteAt
  readonly lock: LoginLock
  readonly network: string
  readonly fields: ReadonlyMap<string, string>
  readonly to: string
}

/** What becomes of a form, with the page that is shown again when nobody is let in. */
interface Answer {
  readonly outcome: CodeOutcome | CodeRequest | { readonly kind: 'malformed' }
  readonly asked: Exclude<GateState, { kind: 'ended' | 'logout' }>
}

/** The forms of the login pages of closed sites, at the hosts of these sites: only pages of the same origin may send them. */
export function accessRoutes(deps: Deps): Router {
  const visits = createVisits(required(deps.config.secretKey, 'PLINTH_SECRET_KEY'))
  const router = new Router({ strict: true, sensitive: true })
  const forms = [
    [gatePaths.password, 'password', takePassword],
    [gatePaths.email, 'email', takeEmail],
    [gatePaths.code, 'email', takeCode],
  ] as const
  for (const [path, mode, take] of forms) {
    router.get(path, goToSite)
    router.post(path, (koa) => answering(deps, koa, (place, network) => login(deps, visits, koa, { place, network, mode, take })))
  }
  router.get(gatePaths.logout, (koa) =>
    answering(deps, koa, async (place, network) => {
      const site = await siteAt(deps, place, network)
      if (site.lock) showPage(koa, site, { kind: 'logout' }, '/')
      else seeOther(koa, '/')
    }),
  )
  router.post(gatePaths.logout, (koa) =>
    answering(deps, koa, async (place, network) => {
      await siteAt(deps, place, network)
      if (!isFromSameOrigin(koa, place)) throw foreign()
      koa.append('set-cookie', visitCookie('', 0, place.isSecure))
      seeOther(koa, '/')
    }),
  )
  return router
}

/** A visitor who reloads an answer, or enters its address. */
const goToSite = (koa: Koa) => seeOther(koa, '/')

function seeOther(koa: Koa, path: string): void {
  koa.status = 303
  koa.set('location', path)
  koa.body = ''
}

const foreign = () => new AppError('forbidden', 'the form was sent from a page of another site')

async function answering(deps: Deps, koa: Koa, work: (place: Place, network: string) => Promise<void>): Promise<void> {
  try {
    const place = placeOf(koa, deps.config)
    if (!place) throw notFound('there is no site at this host')
    await work(place, clientNetwork(koa))
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

const languageOf = (koa: Koa) => preferredLanguage(koa.get('accept-language'))

/** @throws AppError `not_found` at hosts that redirect, to another host or to https */
async function siteAt({ admission, config }: Deps, { host, isSecure }: Place, network: string): Promise<SiteAt> {
  const { platformDomain, base } = config.urls
  const site = await findSiteAt(admission.databaseOf({ kind: 'address', id: network }), platformDomain, host)
  const isHttpsOnly = base.startsWith('https:') && (site?.isSecured || host.endsWith(`.${platformDomain}`))
  if (!site || (isHttpsOnly && !isSecure)) throw notFound('there is no site at this host')
  return site
}

interface Form {
  readonly place: Place
  readonly network: string
  /** Which lock it opens. */
  readonly mode: LoginLock['mode']
  readonly take: (post: Post) => Promise<Answer>
}

async function login(deps: Deps, visits: Visits, koa: Koa, { place, network, mode, take }: Form): Promise<void> {
  using caller = deps.admission.enter({ kind: 'address', id: network })
  const site = await siteAt(deps, place, network)
  using _received = deps.admission.enter({ kind: 'site', id: site.site_id })
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
  if (lock.mode !== mode) return showPage(koa, site, { kind: lock.mode }, to)
  const db = deps.admission.databaseOf({ kind: 'project', id: site.project_id })
  const post: Post = { koa, services: { ...deps, db, visits }, place, site, lock, network, fields, to }
  show(deps, post, await take(post))
}

async function takePassword({ services, lock, place, network, fields }: Post): Promise<Answer> {
  // a longer one is wrong, and is not worth hashing
  const password = (fields.get('password') ?? '').slice(0, 2 * maxPasswordLength + 1)
  return {
    outcome: await loginWithPassword(services, lock, { host: place.host, network }, password),
    asked: { kind: 'password' },
  }
}

async function takeEmail({ koa, services, site, lock, place, network, fields }: Post): Promise<Answer> {
  const email = (fields.get('email') ?? '').trim().toLowerCase()
  if (!isPlainAddress(email)) return { outcome: { kind: 'malformed' }, asked: { kind: 'email' } }
  const visitor = { host: place.host, network, device: deviceOf(koa.get('user-agent')), lang: languageOf(koa) }
  const { site_id, project_id } = site
  return {
    outcome: await requestCode(services, { site_id, project_id, lock }, visitor, email),
    asked: codeState(fields, email) ?? { kind: 'email' },
  }
}

async function takeCode({ koa, services, lock, place, network, fields }: Post): Promise<Answer> {
  const email = (fields.get('email') ?? '').trim().toLowerCase()
  const asked = codeState(fields, email)
  if (!asked) return { outcome: { kind: 'malformed' }, asked: { kind: 'email' } }
  const code = (fields.get('code') ?? '').slice(0, maxCodeLength).replace(/[\s-]/g, '')
  const visitor = { host: place.host, network, device: deviceOf(koa.get('user-agent')) }
  return { outcome: await loginWithCode(services, lock, visitor, { challenge: asked.challenge, email, code }), asked }
}

/** The page that asks for a code again; undefined when the form came from another page. */
function codeState(fields: ReadonlyMap<string, string>, email: string) {
  const challenge = fields.get('challenge') ?? ''
  return isUuid(challenge) && isPlainAddress(email) ? ({ kind: 'code', email, challenge } as const) : undefined
}

/** Why a form is shown again. */
const errors = { wrong: 'wrong', malformed: 'wrong', full: 'full', expired: 'expired', wait: 'wait' } as const satisfies Record<
  string,
  GateError
>

function show(deps: Deps, { koa, services, place, site, to }: Post, { outcome, asked }: Answer): void {
  if ('afterwards' in outcome && outcome.afterwards) runAfterwards(deps, koa, outcome.afterwards)
  if (outcome.kind === 'granted') {
    koa.append('set-cookie', visitCookie(outcome.cookie, outcome.maxAgeSeconds, place.isSecure))
    seeOther(koa, to)
  } else if (outcome.kind === 'requested') {
    showPage(koa, site, { kind: 'code', email: outcome.email, challenge: outcome.challenge }, to)
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

/** Runs work whose duration the visitor must not see, also for a visitor who has left already. */
function runAfterwards({ log }: Deps, { res }: Koa, work: () => Promise<void>): void {
  const run = () => void work().catch((error: unknown) => log.error({ err: error }, 'work after a login page failed'))
  if (res.destroyed || res.socket === null || res.socket.destroyed) run()
  else res.once('close', run)
}

function showPage(koa: Koa, { brand }: SiteAt, state: GateState, to: string): void {
  const { status, headers, body } = gatePage({ lang: languageOf(koa), state, brand, to })
  koa.status = status
  for (let i = 0; i < headers.length; i += 2) koa.set(headers[i] ?? '', headers[i + 1] ?? '')
  koa.body = body
}
