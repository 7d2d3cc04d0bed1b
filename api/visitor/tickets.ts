import type { Context as Koa } from 'koa'
import { returnPath } from '../../core/return-path.ts'
import { ticketPath, ticketRequestPath } from '../../core/tickets.ts'
import { gatePaths, visitCookie, visitCookies } from '../../core/visits.ts'
import { type Config, previewOrigin } from '../../infra/config.ts'
import { deployIdOf, isSameToken } from '../../infra/crypto/permanent-tokens.ts'
import { webPage, webPagePolicy } from '../../infra/web-page.ts'
import { issueTicket, type LinkPlace, redeemTicket } from '../../services/access/tickets.ts'
import { findPermanentLink } from '../../services/previews/permanent-links.ts'
import { type AccessDeps, type Arrival, enterSite, languageOf, noSite, type Signers, seeOther, showPage } from './access-forms.ts'
import { usedTicketPage } from './access-pages.ts'

/** Issues a ticket at a host of a closed site, or redeems one at the host of a permanent link. */
export async function answerTicket(deps: AccessDeps, signers: Signers, koa: Koa, arrival: Arrival): Promise<void> {
  if (koa.method !== 'GET' || !opensPage(koa)) throw noSite()
  const link = linkPlaceOf(deps.config, arrival.place.host)
  if (link) await redeem(deps, signers, koa, { ...arrival, link })
  else await issue(deps, signers, koa, arrival)
}

/** Other pages can embed the address of a ticket as an image or a frame; browsers that say so get none. */
const opensPage = (koa: Koa) => ['', 'document'].includes(koa.get('sec-fetch-dest'))

function linkPlaceOf({ urls }: Pick<Config, 'urls'>, host: string): LinkPlace | undefined {
  const underHost = `.${new URL(urls.preview).hostname}`
  if (!host.endsWith(underHost)) return undefined
  const token = host.slice(0, -underHost.length)
  const deploy_id = deployIdOf(token)
  return deploy_id === undefined ? undefined : { host, token, deploy_id }
}

/** The ticket travels in a redirect to the origin of the link alone, which is one of the same site. */
async function issue(deps: AccessDeps, signers: Signers, koa: Koa, { place, network }: Arrival): Promise<void> {
  const token = textOf(koa, 'link')
  const deployId = deployIdOf(token)
  if (deployId === undefined) throw noSite()
  const to = returnPath(textOf(koa, 'to'))
  using entered = await enterSite(deps, signers, { place, network })
  const { site, services } = entered
  const { site_id, lock } = site
  const link = await findPermanentLink(services.db, site_id, deployId)
  if (!link || !isSameToken(token, deps.permanentTokens(link.deploy_id, link.generation))) throw noSite()
  const origin = previewOrigin(deps.config, token)
  // was opened since the edge looked
  if (!lock) return seeOther(koa, origin + to)
  const again = ticketRequestPath(token, to)
  const cookies = visitCookies(koa.get('cookie'), place.isSecure)
  const outcome = await issueTicket(services, { site_id, host: place.host, network }, cookies, link.deploy_id)
  if (outcome.kind === 'issued') seeOther(koa, origin + ticketPath(outcome.ticket, to))
  else if (outcome.kind === 'renew') seeOther(koa, `${gatePaths.renew}?to=${encodeURIComponent(again)}`)
  else showPage(koa, site, { kind: outcome.kind === 'closed' ? lock.mode : outcome.kind }, again)
}

async function redeem(
  deps: AccessDeps,
  signers: Signers,
  koa: Koa,
  { place, network, link }: Arrival & { readonly link: LinkPlace },
): Promise<void> {
  const caller = { kind: 'address', id: network } as const
  using _entered = deps.admission.enter(caller)
  const { base } = deps.config.urls
  if (base.startsWith('https:') && !place.isSecure) throw noSite()
  const to = returnPath(textOf(koa, 'to'))
  const services = { ...deps, ...signers, db: deps.admission.databaseOf(caller) }
  const granted = await redeemTicket(services, link, textOf(koa, 'ticket'))
  if (granted) {
    koa.append('set-cookie', visitCookie(granted.cookie, granted.maxAgeSeconds, place.isSecure))
    seeOther(koa, to)
  } else refuseTicket(koa, to)
}

/** The page leads back to the link, which begins again. */
function refuseTicket(koa: Koa, to: string): void {
  koa.status = 403
  koa.type = 'text/html'
  koa.set('content-security-policy', webPagePolicy)
  koa.set('referrer-policy', 'no-referrer')
  koa.body = webPage(usedTicketPage(languageOf(koa), to))
  koa.set('plinth-error', 'forbidden')
}

/** A member of the query that is there once; empty otherwise. */
function textOf({ query }: Koa, name: string): string {
  const value = query[name]
  return typeof value === 'string' ? value : ''
}
