import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { maxPasswordLength } from '../../core/access.ts'
import { deviceOf } from '../../core/access-login.ts'
import { isPlainAddress } from '../../core/emails.ts'
import { hasMembers, memberModes } from '../../core/members.ts'
import { isUuid } from '../../core/uuid.ts'
import { gatePaths, proofCookie, visitCookie } from '../../core/visits.ts'
import { required } from '../../infra/config.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { requestCode } from '../../services/access/codes.ts'
import { findKnownHosts } from '../../services/access/find-known-hosts.ts'
import { loginWithListedCode } from '../../services/access/listed-login.ts'
import { loginWithPassword } from '../../services/access/login.ts'
import { loginMember } from '../../services/members/login.ts'
import type { Deps } from '../context.ts'
import {
  type AccessDeps,
  type Answer,
  answering,
  foreign,
  type GateForm,
  languageOf,
  type Post,
  receiveForm,
  seeOther,
  showPage,
  siteAt,
  typedCode,
} from './access-forms.ts'
import { isFromSameOrigin } from './access-request.ts'
import { createKnownHosts } from './known-hosts.ts'
import { memberForms, memberSiteOf } from './members.ts'
import { messengerForms, renew } from './messengers.ts'
import { openPayment, openPrice, paymentForms } from './payments.ts'
import { answerTicket } from './tickets.ts'

const forms: readonly GateForm[] = [
  { path: gatePaths.password, modes: ['password'], take: takePassword },
  { path: gatePaths.email, modes: ['email', ...memberModes], take: takeEmail },
  { path: gatePaths.code, modes: ['email', ...memberModes], take: takeCode },
  ...memberForms,
  ...messengerForms,
  ...paymentForms,
]

/** The forms of the login pages of closed sites, at the hosts of these sites: only pages of the same origin may send them. */
export function accessRoutes(services: Deps, hostLookUpGapMs?: number): Router {
  const { platformDomain } = services.config.urls
  const hosts = createKnownHosts((unknown) => findKnownHosts(services.db, platformDomain, unknown), hostLookUpGapMs)
  const deps: AccessDeps = { ...services, hosts }
  const secretKey = required(deps.config.secretKey, 'PLINTH_SECRET_KEY')
  const signers = { visits: createVisits(secretKey), proofs: createVisits(secretKey, 'proof') }
  const router = new Router({ strict: true, sensitive: true })
  router.get(gatePaths.pay, (koa) => answering(deps, koa, (place, network) => openPrice(deps, signers, koa, { place, network })))
  for (const form of forms) {
    router.get(form.path, goToSite)
    router.post(form.path, (koa) =>
      answering(deps, koa, (place, network) => receiveForm(deps, signers, koa, { place, network, ...form })),
    )
  }
  router.get(gatePaths.ticket, (koa) =>
    answering(deps, koa, (place, network) => answerTicket(deps, signers, koa, { place, network })),
  )
  router.get(gatePaths.renew, (koa) => answering(deps, koa, (place, network) => renew(deps, signers, koa, { place, network })))
  router.get(gatePaths.payment, (koa) =>
    answering(deps, koa, (place, network) => openPayment(deps, signers, koa, { place, network })),
  )
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
      koa.append('set-cookie', proofCookie('', place.isSecure))
      seeOther(koa, '/')
    }),
  )
  return router
}

/** A visitor who reloads an answer, or enters its address. */
const goToSite = (koa: Koa) => seeOther(koa, '/')

async function takePassword({ services, lock, place, network, fields }: Post): Promise<Answer> {
  // a longer one is wrong, and is not worth hashing
  const password = (fields.get('password') ?? '').slice(0, 2 * maxPasswordLength + 1)
  return {
    outcome: await loginWithPassword(services, lock, { host: place.host, network }, password),
    asked: { kind: 'password' },
  }
}

async function takeEmail(post: Post): Promise<Answer> {
  const { site, lock, fields } = post
  const email = (fields.get('email') ?? '').trim().toLowerCase()
  const asked = { kind: hasMembers(lock.mode) ? lock.mode : 'email' } as const
  if (!isPlainAddress(email)) return { outcome: { kind: 'malformed' }, asked }
  const visitor = { ...visitorOf(post), lang: languageOf(post.koa) }
  const outcome = await requestCode(post.services, { ...site, lock }, visitor, email)
  return { outcome, asked: codeState(fields, email) ?? asked }
}

async function takeCode(post: Post): Promise<Answer> {
  const { services, lock, fields } = post
  const email = (fields.get('email') ?? '').trim().toLowerCase()
  const asked = codeState(fields, email)
  if (!asked) return { outcome: { kind: 'malformed' }, asked: { kind: hasMembers(lock.mode) ? lock.mode : 'email' } }
  const code = typedCode(fields)
  const entered = { challenge: asked.challenge, email, code }
  const outcome = hasMembers(lock.mode)
    ? await loginMember(services, memberSiteOf(post), visitorOf(post), entered)
    : await loginWithListedCode(services, lock, visitorOf(post), entered)
  return { outcome, asked }
}

const visitorOf = ({ koa, place, network }: Post) => ({ host: place.host, network, device: deviceOf(koa.get('user-agent')) })

/** The page that asks for a code again; undefined when the form came from another page. */
function codeState(fields: ReadonlyMap<string, string>, email: string) {
  const challenge = fields.get('challenge') ?? ''
  return isUuid(challenge) && isPlainAddress(email) ? ({ kind: 'code', email, challenge } as const) : undefined
}
