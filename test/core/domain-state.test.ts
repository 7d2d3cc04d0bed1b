import { describe, expect, test } from 'vitest'
import {
  certificateStatus,
  type DomainAction,
  type DomainFacts,
  type DomainState,
  domainActions,
  domainAllows,
  domainState,
  domainStates,
  isVerified,
} from '../../core/domain-state.ts'

const at = new Date(0)
const unverified: DomainFacts = {
  verified_at: null,
  next_check_at: at,
  connected_at: null,
  secured: false,
  order_id: null,
  certificate_error: null,
}
const verified = { ...unverified, verified_at: at }
const ordered = { order_id: 'order' }
const failed = { certificate_error: 'refused' }
const connected = { connected_at: at }
const secured = { secured: true }

describe('the state of a domain', () => {
  test.each<[string, DomainFacts, DomainState]>([
    ['just added', unverified, 'unverified'],
    ['lost while its order was under way', { ...unverified, ...ordered }, 'unverified'],
    ['lost with a certificate', { ...unverified, ...secured }, 'unverified'],
    ['not proved in its time', { ...unverified, next_check_at: null }, 'given_up'],
    ['just proved', verified, 'connecting'],
    ['whose first order was given up just now', { ...verified, ...failed }, 'connecting'],
    ['with its first order', { ...verified, ...ordered }, 'certifying'],
    ['with a later order', { ...verified, ...connected, ...ordered, ...failed }, 'certifying'],
    ['whose owner was told of the order that was given up', { ...verified, ...connected, ...failed }, 'without_certificate'],
    ['with a certificate', { ...verified, ...secured }, 'live'],
    ['with a certificate, of which the owner was told', { ...verified, ...connected, ...secured }, 'live'],
    ['whose certificate is renewed', { ...verified, ...connected, ...secured, ...ordered }, 'live'],
  ])('a domain %s', (_name, facts, state) => expect(domainState(facts, true)).toBe(state))

  test.each<[string, DomainFacts, DomainState]>([
    ['not proved', unverified, 'unverified'],
    ['not proved in its time', { ...unverified, next_check_at: null }, 'given_up'],
    ['just proved', verified, 'live'],
    ['with an order of former settings', { ...verified, ...connected, ...ordered }, 'live'],
  ])('without a certificate authority, a domain %s', (_name, facts, state) => expect(domainState(facts, false)).toBe(state))

  const all = [unverified, { ...unverified, next_check_at: null }, verified].flatMap((ownership) =>
    [{}, connected].flatMap((a) => [{}, secured].flatMap((b) => [{}, ordered].map((c) => ({ ...ownership, ...a, ...b, ...c })))),
  )
  test('a domain is verified in every state but the first two', () => {
    for (const facts of all) {
      const isBefore = ['unverified', 'given_up'].includes(domainState(facts, true))
      expect([facts, isVerified(facts)]).toEqual([facts, !isBefore])
    }
  })
})

test.each<[DomainState, DomainAction[]]>([
  ['unverified', []],
  ['given_up', ['reopen']],
  ['connecting', ['order']],
  ['certifying', ['order']],
  ['without_certificate', ['order', 'reopen']],
  ['live', []],
])('a domain that is %s allows %j', (state, actions) => {
  const allowed = (Object.keys(domainActions) as DomainAction[]).filter((action) => domainAllows(action, state))
  expect(allowed).toEqual(actions)
  expect(domainStates).toContain(state)
})

describe('the certificate of a domain', () => {
  test.each([
    ['not proved', unverified, 'none'],
    ['lost while its order was under way', { ...unverified, ...ordered }, 'pending'],
    ['lost with a certificate', { ...unverified, ...secured }, 'issued'],
    ['just proved', verified, 'pending'],
    ['with its first order', { ...verified, ...ordered }, 'pending'],
    ['whose order has failed', { ...verified, ...ordered, ...failed }, 'error'],
    ['whose order was given up', { ...verified, ...connected, ...failed }, 'error'],
    ['whose order was ended', { ...verified, ...connected }, 'none'],
    ['with a certificate', { ...verified, ...secured }, 'issued'],
    ['whose renewal has failed', { ...verified, ...connected, ...secured, ...ordered, ...failed }, 'issued'],
  ] as const)('of a domain %s is shown', (_name, facts, status) => expect(certificateStatus(facts, true)).toBe(status))

  test.each([
    ['nothing', verified, 'none'],
    ['nothing of a former failure', { ...verified, ...connected, ...failed }, 'none'],
    ['a former certificate', { ...verified, ...secured }, 'issued'],
  ] as const)('without a certificate authority %s is shown', (_name, facts, status) =>
    expect(certificateStatus(facts, false)).toBe(status),
  )
})
