import { maxMemberNameLength, memberModes } from '../../core/members.ts'
import { gatePaths, visitCookies } from '../../core/visits.ts'
import { consent, enter, provedAddress } from '../../services/members/login.ts'
import type { MemberSite } from '../../services/members/register.ts'
import { type Answer, type GateForm, languageOf, type NextPage, type Post, proofsIn } from './access-forms.ts'

/** The forms that follow the code at sites with members. */
export const memberForms: readonly GateForm[] = [
  { path: gatePaths.register, modes: memberModes, take: takeRegistration },
  { path: gatePaths.consent, modes: memberModes, take: takeConsent },
]

/** A site with members, as a visitor came to it. */
export const memberSiteOf = ({ koa, site, lock, place, network }: Post): MemberSite => ({
  site_id: site.site_id,
  project_id: site.project_id,
  lock,
  host: place.host,
  lang: languageOf(koa),
  network,
})

/** The page of the site that asks for the address, for visitors who have confirmed none. */
const beginning = ({ lock }: Post): NextPage => ({ kind: 'page', state: { kind: lock.mode } })

async function takeRegistration(post: Post): Promise<Answer> {
  const { koa, services, place, fields } = post
  const site = memberSiteOf(post)
  const email = await provedAddress(services, site, proofsIn(koa, place))
  if (email === undefined) return { outcome: beginning(post), asked: { kind: 'members' } }
  // a longer name is refused
  const name = (fields.get('name') ?? '').slice(0, 2 * maxMemberNameLength + 1).toWellFormed()
  return {
    outcome: await enter(services, site, email, { name, consent: fields.get('consent') ?? '' }),
    asked: { kind: 'register', email, name },
  }
}

async function takeConsent(post: Post): Promise<Answer> {
  const { koa, services, place, fields } = post
  const cookies = { visits: visitCookies(koa.get('cookie'), place.isSecure), proofs: proofsIn(koa, place) }
  const outcome = await consent(services, memberSiteOf(post), cookies, fields.get('consent') ?? '')
  return { outcome: outcome ?? beginning(post), asked: { kind: 'consent' } }
}
