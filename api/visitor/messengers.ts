import type { Context as Koa } from 'koa'
import { type MessengerName, messengerNames } from '../../core/messengers.ts'
import { returnPath } from '../../core/return-path.ts'
import { isUuid } from '../../core/uuid.ts'
import { gatePaths, visitCookie, visitCookies } from '../../core/visits.ts'
import { beginMessengerLogin, findBegunLogin, loginWithMessenger } from '../../services/messengers/logins.ts'
import { renewVisit } from '../../services/messengers/renew.ts'
import {
  type AccessDeps,
  type Answer,
  type Arrival,
  enterSite,
  type GateForm,
  type Post,
  type Signers,
  seeOther,
  showPage,
  typedCode,
} from './access-forms.ts'

/** The forms of the login page of sites that let subscribers in. */
export const messengerForms: readonly GateForm[] = [
  { path: gatePaths.messenger, modes: ['subscribers'], take: takeMessenger },
  { path: gatePaths.messengerCode, modes: ['subscribers'], take: takeMessengerCode },
]

const providerIn = (fields: ReadonlyMap<string, string>): MessengerName | undefined =>
  messengerNames.find((name) => name === fields.get('provider'))

async function takeMessenger({ services, lock, place, network, fields }: Post): Promise<Answer> {
  const asked = { kind: 'subscribers' } as const
  const provider = providerIn(fields)
  if (!provider) return { outcome: { kind: 'malformed' }, asked }
  const begun = await beginMessengerLogin(services, lock, { host: place.host, network }, provider)
  if (begun.kind === 'begun') {
    const { challenge, url } = begun
    return { outcome: { kind: 'page', state: { kind: 'messenger', provider, url, challenge } }, asked }
  }
  if (begun.kind === 'wait') return { outcome: begun, asked }
  return { outcome: { kind: 'page', state: { kind: begun.kind } }, asked }
}

async function takeMessengerCode({ services, lock, place, network, fields }: Post): Promise<Answer> {
  const asked = { kind: 'subscribers' } as const
  const challenge = fields.get('challenge') ?? ''
  if (!isUuid(challenge)) return { outcome: { kind: 'malformed' }, asked }
  const code = typedCode(fields)
  const outcome = await loginWithMessenger(services, lock, { host: place.host, network }, { challenge, code })
  if (outcome.kind === 'stranger' || outcome.kind === 'away') {
    return { outcome: { kind: 'page', state: { kind: outcome.kind } }, asked }
  }
  const isOpen = outcome.kind === 'wrong' || outcome.kind === 'wait'
  const begun = isOpen ? await findBegunLogin(services, lock, challenge) : undefined
  return { outcome, asked: begun ? { kind: 'messenger', ...begun } : asked }
}

/** Renews the visit of a subscriber, to whom the edge has shown the way here. */
export async function renew(deps: AccessDeps, signers: Signers, koa: Koa, { place, network }: Arrival): Promise<void> {
  using entered = await enterSite(deps, signers, { place, network })
  const { site, services } = entered
  const { lock } = site
  const to = returnPath(typeof koa.query.to === 'string' ? koa.query.to : undefined)
  // was opened, or closed in another way, since the edge looked
  if (lock?.mode !== 'subscribers') return seeOther(koa, to)
  const cookies = visitCookies(koa.get('cookie'), place.isSecure)
  const renewal = await renewVisit(services, lock, place.host, cookies)
  if (renewal.kind === 'granted') {
    koa.append('set-cookie', visitCookie(renewal.cookie, renewal.maxAgeSeconds, place.isSecure))
    return seeOther(koa, to)
  }
  if (renewal.kind === 'stranger') koa.append('set-cookie', visitCookie('', 0, place.isSecure))
  showPage(koa, site, { kind: renewal.kind === 'none' ? 'subscribers' : renewal.kind }, to)
}
