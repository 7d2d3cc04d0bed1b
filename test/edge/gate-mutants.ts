import type { Visits } from '../../infra/crypto/visits.ts'
import type { RouteLock } from '../../services/feeds/locks.ts'
import { locks, otherPlace, proofs, refusedBy, refusedStates, token } from './gate-visits.ts'
import { type TestEdgeOptions, visits } from './test-edge.ts'

// Edges that lack one of the checks of a visit.

/** Visits without one of their checks. */
export const reading = (read: Visits['read']): TestEdgeOptions => ({ readVisits: { ...visits, read } })
const alsoAt = (more: Partial<typeof otherPlace>) =>
  reading((place, text) => visits.read(place, text) ?? visits.read({ ...place, ...more }, text))
const far = new Date('2099-01-01')

/** Changes the cookies of a request, or its bypass token. */
const changing = (name: 'cookie' | 'x-plinth-bypass', change: (value: string) => string): TestEdgeOptions => ({
  prepare({ headers }) {
    if (headers[name] !== undefined) headers[name] = change(String(headers[name]))
  },
})
const ofFullLength = Object.keys(refusedStates).filter((name) => /^a (visit (that|of)|proof|forged|prolonged)/.test(name))
const inOtherScheme = (cookie: string) =>
  cookie.startsWith('svc_s=') ? `${cookie}; ${cookie.replaceAll('svc_s=', '__Host-svc_s=')}` : cookie.replace(/^__Host-/, '')

export type Mutant = readonly [check: string, options: TestEdgeOptions, caught: readonly string[], lock?: RouteLock]

/** A check that is missing, how it is removed from outside, and the states of visits that pass without it. */
export const mutants: readonly Mutant[] = [
  ['the site', alsoAt({ site_id: otherPlace.site_id }), ['a visit of another site']],
  ['the host', alsoAt({ host: otherPlace.host }), ['a visit of another host']],
  ['the epoch', alsoAt({ epoch: otherPlace.epoch }), ['a visit of an older epoch']],
  [
    'the end',
    reading((place, text) => spread(visits.read(place, text), { until: far })),
    ['a visit that is over', 'a visit that has been over for 30 days'],
  ],
  [
    'the end, for subscribers',
    reading((place, text) => spread(visits.read(place, text), { until: far })),
    ['a visit that is over', 'a visit that has been over for 30 days'],
    locks.subscribers,
  ],
  ...[locks.members, locks.paid].map(
    (lock): Mutant => [
      `the consent to the documents, with the lock ${lock.mode}`,
      reading((place, text) => spread(visits.read(place, text), { consent: 99 })),
      Object.keys(refusedBy[lock.mode]),
      lock,
    ],
  ),
  [
    'the generation',
    reading((place, text) => spread(visits.read(place, text), { generation: 99 })),
    ['a visit of a lower generation'],
  ],
  [
    'the signature',
    reading((_place, text) =>
      /^[\w-]{59}$/.test(text) ? { subject: otherPlace.epoch, generation: 0, consent: 0, until: far } : undefined,
    ),
    ofFullLength,
  ],
  ['the length', reading((place, text) => visits.read(place, text.slice(0, 59))), ['an extended visit']],
  [
    'the number of cookies',
    changing('cookie', (cookie) => cookie.split('; ').toReversed().join('; ')),
    ['a visit as the sixth cookie'],
  ],
  ['the scheme', changing('cookie', inOtherScheme), ['the cookie of http over https', 'the cookie of https over http']],
  [
    'the purpose of the signature',
    reading((place, text) => visits.read(place, text) ?? proofs.read(place, text)),
    ['a proof of an address'],
  ],
  [
    'the name of the cookie of a proof',
    changing('cookie', (cookie) => cookie.replace(/^svc_p=/, 'svc_s=')),
    ['a visit under the name of a proof'],
  ],
  ['the exact name', changing('cookie', (cookie) => cookie.replace(/SVC_S=/, 'svc_s=')), ['a cookie of another name']],
  ['the whole token', changing('x-plinth-bypass', (value) => (value === `${token}x` ? token : value)), ['a wrong bypass token']],
  ['a single token', changing('x-plinth-bypass', (value) => value.split(', ')[0] ?? ''), ['the bypass token twice']],
  [
    'the hash of the token',
    changing('x-plinth-bypass', (value) => (/^[0-9a-f]{64}$/.test(value) ? token : value)),
    ['the hash of the bypass token'],
  ],
]

/** The value with other members, if there is one. */
export const spread = <T extends object>(value: T | undefined, more: Partial<T>) => value && { ...value, ...more }
