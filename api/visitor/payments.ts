import type { Context as Koa } from 'koa'
import { gatePaths, visitCookies } from '../../core/visits.ts'
import type { GateState } from '../../infra/gate/state.ts'
import { beginPayment } from '../../services/payments/begin.ts'
import { showPayment } from '../../services/payments/page.ts'
import { findPayer } from '../../services/payments/payer.ts'
import {
  type AccessDeps,
  type Answer,
  type Arrival,
  enterSite,
  type GateForm,
  type Post,
  proofsIn,
  type Signers,
  seeOther,
  show,
} from './access-forms.ts'
import { memberSiteOf } from './members.ts'

/** The form with which members of paid sites begin a payment. */
export const paymentForms: readonly GateForm[] = [{ path: gatePaths.pay, modes: ['paid'], take: takePay }]

/** The page that asks for the address, for visitors who have confirmed none. */
const beginning: Answer = { outcome: { kind: 'page', state: { kind: 'paid' } }, asked: { kind: 'paid' } }

async function takePay(post: Post): Promise<Answer> {
  const { services, place, network, to } = post
  const site = memberSiteOf(post)
  const email = await findPayer(services, site, cookiesIn(post))
  if (email === undefined) return beginning
  const begun = await beginPayment(services, site, { email, origin: place.origin, to, network })
  const asked = { kind: 'pay', email } as const
  return { outcome: begun.kind === 'begun' ? { kind: 'see', path: gatePaths.payment } : begun, asked }
}

const cookiesIn = ({ koa, place }: Post) => ({
  visits: visitCookies(koa.get('cookie'), place.isSecure),
  proofs: proofsIn(koa, place),
})

/** The page of a payment, to which the form and the provider lead. */
export const openPayment = (deps: AccessDeps, signers: Signers, koa: Koa, arrival: Arrival) =>
  openPage(deps, signers, koa, arrival, async (post, email) => {
    const { outcome, to = '/' } = await showPayment(post.services, memberSiteOf(post), email, koa.query.back !== undefined)
    show(deps, { ...post, to }, { outcome, asked: { kind: 'pay', email } })
  })

/** The page with the price, also for members who are inside and pay for the next period. */
export const openPrice = (deps: AccessDeps, signers: Signers, koa: Koa, arrival: Arrival) =>
  openPage(deps, signers, koa, arrival, async (post, email) => {
    const state: GateState = post.site.terms.price ? { kind: 'pay', email } : { kind: 'pay_owner', email }
    show(deps, post, { outcome: { kind: 'page', state }, asked: { kind: 'pay', email } })
  })

async function openPage(
  deps: AccessDeps,
  signers: Signers,
  koa: Koa,
  { place, network }: Arrival,
  open: (post: Post, email: string) => Promise<void>,
): Promise<void> {
  using entered = await enterSite(deps, signers, { place, network })
  const { site, services } = entered
  const { lock } = site
  // was opened, or closed in another way, since the payment was begun
  if (lock?.mode !== 'paid') return seeOther(koa, '/')
  const post: Post = { koa, services, place, site, lock, network, fields: new Map(), to: '/' }
  const email = await findPayer(services, memberSiteOf(post), cookiesIn(post))
  if (email === undefined) return show(deps, post, beginning)
  await open(post, email)
}
