import { request } from 'node:http'
import { expect } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import type { CallbackOf } from '../doubles/provider-server.ts'
import type { TestProject, World } from '../world.ts'
import { type LoginAnswer, loginAnswerTo } from './closed-site.ts'
import { type MemberSite, makeMemberSite, newEmail } from './member-site.ts'

export interface Price {
  readonly amount_minor: number
  readonly currency: string
  readonly period_days: number | null
  readonly provider: string
}

/** A site for paying members, and what they do there. */
export interface PaidSite extends MemberSite {
  setPrice(price: Price): Promise<void>
  /** Somebody who has confirmed an address, up to the page with the price. */
  payer(email?: string): Promise<Payer>
  checkouts(): Promise<any[]>
}

export interface Payer {
  readonly email: string
  readonly proof: string
  /** Sends the form of the page with the price. */
  pay(to?: string): Promise<LoginAnswer>
  /** Opens the page of the payment. */
  look(query?: string): Promise<LoginAnswer>
  /** As `look`, with another cookie. */
  lookWith(cookie: string, path?: string): (query?: string) => Promise<LoginAnswer>
  member(): Promise<any>
}

/** Sends a callback to the platform. */
export const sendCallback = (w: World, provider: string, { headers, body }: CallbackOf) =>
  fetch(`${w.base}/hooks/payments/${provider}`, { method: 'POST', headers, body })

export async function makePaidSite(w: World, project: TestProject, price: Price): Promise<PaidSite> {
  const site = await makeMemberSite(w, project, 'paid')
  const setPrice = async (changed: Price) => {
    const { status, body } = await w.call(`POST /api/v1/sites/${site.id}/access/paid-mode`, { key: project.key, json: changed })
    if (status !== 200) throw new Error(JSON.stringify(body))
  }
  await setPrice(price)
  return {
    ...site,
    setPrice,
    checkouts: () =>
      w.db.selectFrom('checkouts').selectAll().where('site_id', '=', site.id).orderBy('created_at').orderBy('id').execute(),
    async payer(email = newEmail()) {
      const proof = (await site.login(email)).cookie ?? ''
      expect(proof).toMatch(/svc_p=/)
      return {
        email,
        proof,
        pay: (to = '/docs/') => site.post(gatePaths.pay, { to }, { headers: { cookie: proof } }),
        look: (query = '') => open(w, site.host, gatePaths.payment + query, proof),
        lookWith:
          (cookie, path = gatePaths.payment) =>
          (query = '') =>
            open(w, site.host, path + query, cookie),
        member: () => site.member(email),
      }
    },
  }
}

const open = (w: World, host: string, path: string, cookie: string): Promise<LoginAnswer> =>
  loginAnswerTo(request(w.base + path, { headers: { host, cookie } }).end())
