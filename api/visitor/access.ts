import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { maxPasswordLength } from '../../core/access.ts'
import { deviceOf } from '../../core/access-login.ts'
import { isPlainAddress } from '../../core/emails.ts'
import { isUuid } from '../../core/uuid.ts'
import { gatePaths, visitCookie } from '../../core/visits.ts'
import { required } from '../../infra/config.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { loginWithCode, requestCode } from '../../services/access/codes.ts'
import { loginWithPassword } from '../../services/access/login.ts'
import type { Deps } from '../context.ts'
import {
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
} from './access-forms.ts'
import { isFromSameOrigin } from './access-request.ts'

const maxCodeLength = 20

const forms: readonly GateForm[] = [
  { path: gatePaths.password, modes: ['password'], take: takePassword },
  { path: gatePaths.email, modes: ['email'], take: takeEmail },
  { path: gatePaths.code, modes: ['email'], take: takeCode },
]

/** The forms of the login pages of closed sites, at the hosts of these sites: only pages of the same origin may send them. */
export function accessRoutes(deps: Deps): Router {
  const visits = createVisits(required(deps.config.secretKey, 'PLINTH_SECRET_KEY'))
  const router = new Router({ strict: true, sensitive: true })
  for (const form of forms) {
    router.get(form.path, goToSite)
    router.post(form.path, (koa) =>
      answering(deps, koa, (place, network) => receiveForm(deps, visits, koa, { place, network, ...form })),
    )
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
