import type { AccessMode } from './access.ts'
import { type ConsentMode, hasMembers } from './members.ts'

/** Where the pages of closed sites send their forms. The edge answers below `brand`, the api everything else. */
export const gatePaths = {
  password: '/__svc/login',
  email: '/__svc/login/email',
  code: '/__svc/login/code',
  /** Finishes the registration of a visitor whose address is confirmed. */
  register: '/__svc/register',
  /** Consents to the documents of the site as they are now. */
  consent: '/__svc/consent',
  /** Begins a payment; its address below shows how it goes. */
  pay: '/__svc/pay',
  payment: '/__svc/payment',
  /** Shows a link to the bot of a messenger, which answers with a code. */
  messenger: '/__svc/login/messenger',
  messengerCode: '/__svc/login/messenger/code',
  /** Checks again that a visitor is a subscriber. */
  renew: '/__svc/renew',
  logout: '/__svc/logout',
  /** At a host of the site: issues a ticket to one of its permanent links. At the host of the link: redeems it for a visit there. */
  ticket: '/__svc/ticket',
  brand: '/__svc/brand/',
} as const

/** The names of a cookie over https, where only the host itself can set it, and over http, where a secure page ignores it. */
interface CookieName {
  readonly secure: string
  readonly plain: string
}

const visitName: CookieName = { secure: '__Host-svc_s', plain: 'svc_s' }
const proofName: CookieName = { secure: '__Host-svc_p', plain: 'svc_p' }
/** Other sites of the same domain can add cookies of the plain name, so a request may have several. */
const maxCookies = 5

/** The values of the first cookies of a request that may hold a visit. @param header Cookie */
export const visitCookies = (header: string, isSecure: boolean) => valuesOf(visitName, header, isSecure)

/** As {@link visitCookies}, of those that may prove an address. */
export const proofCookies = (header: string, isSecure: boolean) => valuesOf(proofName, header, isSecure)

function valuesOf({ secure, plain }: CookieName, header: string, isSecure: boolean): string[] {
  const name = isSecure ? secure : plain
  const values: string[] = []
  for (let start = 0; start < header.length && values.length < maxCookies; ) {
    const semicolon = header.indexOf(';', start)
    const end = semicolon === -1 ? header.length : semicolon
    const pair = header.slice(start, end).trim()
    if (pair.startsWith(`${name}=`)) values.push(pair.slice(name.length + 1))
    start = end + 1
  }
  return values
}

/** How long a visit lasts, unless its lock ends earlier. */
export const visitPeriodMs = 30 * 24 * 3_600_000
/** How long a visitor who has confirmed an address may take to register or to pay. */
export const proofPeriodMs = 2 * 3_600_000

/** How long after its end the visit of a subscriber can be renewed; its cookie is kept for the length of a usual visit. */
const renewablePeriodMs = visitPeriodMs - 24 * 3_600_000

/** Whether the visit of a subscriber that lasts until the instant holds, or has not been over for too long to be renewed. */
export const isRenewable = (until: Date, now: Date) => now.getTime() < until.getTime() + renewablePeriodMs

/** What a visit says of its visitor. */
interface VisitClaims {
  readonly subject: string
  readonly generation: number
  readonly consent: number
  readonly until: Date
}

/** What a closed site asks of the visits of its epoch. */
interface VisitRules {
  readonly mode: AccessMode
  readonly generations: readonly { readonly subject: string; readonly generation: number }[]
  readonly consent_version: number
  readonly terms: { readonly consent_mode: ConsentMode }
}

/** `consent` and `renew`: the visitor was let in, and has to agree to documents again or to be looked up in the messenger again. */
export type VisitState = 'pass' | 'consent' | 'renew' | 'closed'

/** Whether a visit of the present epoch lets its visitor in. */
export function stateOfVisit({ subject, generation, consent, until }: VisitClaims, rules: VisitRules, nowMs: number): VisitState {
  if (!(generation >= lowestGeneration(rules, subject))) return 'closed'
  if (!(nowMs < until.getTime())) return rules.mode === 'subscribers' && isRenewable(until, new Date(nowMs)) ? 'renew' : 'closed'
  return !(consent >= rules.consent_version) && asksForConsent(rules) ? 'consent' : 'pass'
}

const asksForConsent = ({ mode, terms }: VisitRules) => hasMembers(mode) && terms.consent_mode !== 'none'

const lowestGeneration = ({ generations }: VisitRules, subject: string) =>
  generations.find((raised) => raised.subject === subject)?.generation ?? 0

/** The `Set-Cookie` of a visit for so many seconds; 0 ends it. */
export const visitCookie = (value: string, maxAgeSeconds: number, isSecure: boolean) =>
  cookieOf(visitName, value, maxAgeSeconds, isSecure)

/** The `Set-Cookie` of a proof; an empty one ends it. */
export const proofCookie = (value: string, isSecure: boolean) =>
  cookieOf(proofName, value, value === '' ? 0 : proofPeriodMs / 1000, isSecure)

function cookieOf({ secure, plain }: CookieName, value: string, maxAgeSeconds: number, isSecure: boolean): string {
  const name = isSecure ? secure : plain
  return `${name}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
}
