import type { Context as Koa } from 'koa'
import { gatePaths } from '../../core/visits.ts'
import { provedAddress } from '../../services/members/login.ts'
import { beginPayment } from '../../services/payments/begin.ts'
import { showPayment } from '../../services/payments/page.ts'
import type { Deps } from '../context.ts'
import { type Answer, type GateForm, type Post, proofsIn, type Signers, seeOther, show, siteAt } from './access-forms.ts'
import type { Place } from './access-request.ts'
import { memberSiteOf } from './members.ts'

/** The form with which members of paid sites begin a payment. */
export const paymentForms: readonly GateForm[] = [{ path: gatePaths.pay, modes: ['paid'], take: takePay }]

/** The page that asks for the address, for visitors who have confirmed none. */
const beginning: Answer = { outcome: { kind: 'page', state: { kind: 'paid' } }, asked: { kind: 'paid' } }

async function takePay(post: Post): Promise<Answer> {
  const { koa, services, place, network, to } = post
  const site = memberSiteOf(post)
  const email = await provedAddress(services, site, proofsIn(koa, place))
  if (email === undefined) return beginning
  const begun = await beginPayment(services, site, { email, origin: place.origin, to, network })
  const asked = { kind: 'pay', email } as const
  return { outcome: begun.kind === 'begun' ? { kind: 'see', path: gatePaths.payment } : begun, asked }
}

/** The page of a payment, to which the form and the provider lead. */
export async function openPayment(
  deps: Deps,
  signers: Signers,
  koa: Koa,
  { place, network }: { readonly place: Place; readonly network: string },
): Promise<void> {
  using _caller = deps.admission.enter({ kind: 'address', id: network })
  const site = await siteAt(deps, place, network)
  using _visit = deps.admission.enter({ kind: 'site', id: site.site_id })
  const { lock } = site
  // was opened, or closed in another way, since the payment was begun
  if (lock?.mode !== 'paid') return seeOther(koa, '/')
  const db = deps.admission.databaseOf({ kind: 'project', id: site.project_id })
  const services = { ...deps, db, ...signers }
  const post: Post = { koa, services, place, site, lock, network, fields: new Map(), to: '/' }
  const email = await provedAddress(services, memberSiteOf(post), proofsIn(koa, place))
  if (email === undefined) return show(deps, post, beginning)
  const { outcome, to = '/' } = await showPayment(services, memberSiteOf(post), email, koa.query['back'] !== undefined)
  show(deps, { ...post, to }, { outcome, asked: { kind: 'pay', email } })
}
