import { createHash, randomUUID } from 'node:crypto'
import type { AccessMode } from '../../core/access.ts'
import { anybody, createVisits, type Visit, type VisitPlace } from '../../infra/crypto/visits.ts'
import { noTerms, type RouteLock } from '../../services/feeds/locks.ts'
import { lockOf, platformDomain, visits } from './test-edge.ts'

// Visits of a closed site in every state, as headers of requests.

export const token = 'a-token-for-machines'
const raised = randomUUID()

const common = { bypass_sha256: sha256(token), generations: [{ subject: raised, generation: 2 }] }
const consent_version = 3
const consenting = { ...common, consent_version, terms: { ...noTerms, consent_mode: 'checkbox' } } as const

export const locks = {
  password: lockOf(common),
  email: lockOf({ ...common, mode: 'email' }),
  subscribers: lockOf({ ...common, mode: 'subscribers' }),
  members: lockOf({ ...consenting, mode: 'members' }),
  paid: lockOf({ ...consenting, mode: 'paid' }),
} as const satisfies Record<AccessMode, RouteLock>

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Of addresses that visitors have confirmed. */
export const proofs = createVisits(Buffer.alloc(32, 1), 'proof')

const day = 24 * 3_600_000
const cookies = (...values: string[]) => [`Cookie: ${values.map((value) => `svc_s=${value}`).join('; ')}`]
const https = 'X-Forwarded-Proto: https'

/** The headers of each state of a visit, made for a place. */
export type States = Readonly<Record<string, (at: VisitPlace) => readonly string[]>>

const issued = (at: VisitPlace, more: Partial<Visit> = {}, from = visits) =>
  from.issue(at, { subject: anybody, generation: 0, consent: consent_version, until: new Date(Date.now() + day), ...more })

/** A visit that has ended with its end changed to a later one, as everybody can who has one. */
function prolonged(at: VisitPlace): string {
  const bytes = Buffer.from(issued(at, { until: new Date(Date.now() - day) }), 'base64url')
  bytes.writeUInt32BE(Math.floor((Date.now() + day) / 1000), 20)
  return bytes.toString('base64url')
}

const daysAgo = (days: number) => new Date(Date.now() - days * day)

/** Visits that no lock lets in. */
export const refusedStates: States = {
  'no visit': () => [],
  'an empty cookie': () => cookies(''),
  'a visit that is over': (at) => cookies(issued(at, { until: new Date(Date.now() - 1000) })),
  'a visit that has been over for 30 days': (at) => cookies(issued(at, { until: daysAgo(30) })),
  'a visit of a lower generation that is over': (at) =>
    cookies(issued(at, { subject: raised, generation: 1, until: daysAgo(1) })),
  'a visit of another site': (at) => cookies(issued({ ...at, site_id: otherPlace.site_id })),
  'a visit of another host': (at) => cookies(issued({ ...at, host: otherPlace.host })),
  'a visit of an older epoch': (at) => cookies(issued({ ...at, epoch: otherPlace.epoch })),
  'a visit of a lower generation': (at) => cookies(issued(at, { subject: raised, generation: 1 })),
  'a forged visit': (at) => cookies(issued(at, {}, createVisits(Buffer.alloc(32, 9)))),
  'a prolonged visit': (at) => cookies(prolonged(at)),
  'a truncated visit': (at) => cookies(issued(at).slice(0, -1)),
  'an extended visit': (at) => cookies(`${issued(at)}A`),
  'a visit as the sixth cookie': (at) => cookies('1', '2', '3', '4', '5', issued(at)),
  'the cookie of http over https': (at) => [...cookies(issued(at)), https],
  'the cookie of https over http': (at) => [`Cookie: __Host-svc_s=${issued(at)}`],
  'a cookie of another name': (at) => [`Cookie: SVC_S=${issued(at)}; xsvc_s=${issued(at)}; svc_s_=${issued(at)}`],
  'a proof of an address': (at) => cookies(issued(at, {}, proofs)),
  'a visit under the name of a proof': (at) => [`Cookie: svc_p=${issued(at)}; __Host-svc_p=${issued(at)}`],
  'a visit in other headers': (at) => [`Authorization: Bearer ${issued(at)}`, `svc_s: ${issued(at)}`],
  'a wrong bypass token': () => [`X-Plinth-Bypass: ${token}x`],
  'the bypass token twice': () => [`X-Plinth-Bypass: ${token}`, `X-Plinth-Bypass: ${token}`],
  'the hash of the bypass token': () => [`X-Plinth-Bypass: ${sha256(token)}`],
}

const earlierConsent: States = {
  'a visit of an earlier consent': (at) => cookies(issued(at, { consent: consent_version - 1 })),
  'a visit without consent': (at) => cookies(issued(at, { consent: 0 })),
}

/** Visits that a permanent link of the site refuses. */
export const refusedByLinks: States = {
  'a visit at the host of the site': (at) => cookies(issued({ ...at, host: `site.${platformDomain}` })),
  'a visit at another permanent link': (at) => cookies(issued({ ...at, host: at.host.replace(/^./, 'z') })),
}

/** Visits that only some locks refuse. */
export const refusedBy: Readonly<Record<AccessMode, States>> = {
  password: {},
  email: {},
  subscribers: {},
  members: earlierConsent,
  paid: earlierConsent,
}

/** Over, and not for too long: the visit of a subscriber is renewed. */
export const renewableStates = ['a visit that is over']

export const grantedStates: States = {
  'a visit': (at) => cookies(issued(at)),
  'a visit as the second cookie': (at) => cookies('1', issued(at)),
  'a visit as the fifth cookie': (at) => cookies('1', '2', '3', '4', issued(at)),
  'a visit over https': (at) => [`Cookie: svc_s=1; __Host-svc_s=${issued(at)}`, https],
  'a visit of the raised generation': (at) => cookies(issued(at, { subject: raised, generation: 2 })),
  'a visit of somebody else': (at) => cookies(issued(at, { subject: randomUUID() })),
  'a visit with a wrong bypass token': (at) => [...cookies(issued(at)), 'X-Plinth-Bypass: x'],
  'the bypass token': () => [`X-Plinth-Bypass: ${token}`],
}

/** Whose visits are refused. */
export const otherPlace: VisitPlace = {
  site_id: 'id-of-other',
  host: `other.${platformDomain}`,
  epoch: '22222222-2222-4222-8222-222222222222',
}
