import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { visitCookies } from '../../core/visits.ts'
import { anybody, createVisits } from '../../infra/crypto/visits.ts'
import { cpuMsOf } from '../cpu-time.ts'

const visits = createVisits(Buffer.alloc(32, 7))
const place = { site_id: randomUUID(), host: 'a.example.com', epoch: randomUUID() }
const visit = { subject: randomUUID(), generation: 3, consent: 2, until: new Date(2_000_000_000_000) }
const text = visits.issue(place, visit)

describe('70: a visit', () => {
  test('is read where it was issued', () => expect(visits.read(place, text)).toEqual(visit))

  test('may have no person', () => {
    const shared = { ...visit, subject: anybody, generation: 0 }
    expect(visits.read(place, visits.issue(place, shared))).toEqual(shared)
  })

  test.each([
    ['another site', { ...place, site_id: randomUUID() }],
    ['another host', { ...place, host: 'b.example.com' }],
    ['another epoch', { ...place, epoch: randomUUID() }],
    ['a host that takes over the separator', { ...place, host: 'a.example.com:' }],
  ])('is nothing at %s', (_what, other) => expect(visits.read(other, text)).toBeUndefined())

  test('of another secret key is nothing', () => expect(createVisits(Buffer.alloc(32, 8)).read(place, text)).toBeUndefined())

  test('is nothing when any character of it differs', () => {
    for (let at = 0; at < text.length; at++) {
      // the last character of 40 bytes has two spare bits
      const other = text.charAt(at) === 'A' ? 'Q' : 'A'
      const changed = text.slice(0, at) + other + text.slice(at + 1)
      expect([at, visits.read(place, changed)]).toEqual([at, undefined])
    }
  })

  test.each(['', 'a', text.slice(1), `${text}A`, `${text} `, `${text.slice(0, 58)}=`, '\u0000'.repeat(59), 'ä'.repeat(59)])(
    '%j is none',
    (other) => expect(visits.read(place, other)).toBeUndefined(),
  )
})

describe('the cookies of visits', () => {
  test.each([
    ['', [], []],
    ['svc_s=a', ['a'], []],
    ['__Host-svc_s=a', [], ['a']],
    ['a=b; svc_s=1;svc_s=2 ; __Host-svc_s=3', ['1', '2'], ['3']],
    ['x__Host-svc_s=1; __host-svc_s=2; __Host-svc_s=', [], ['']],
    ['svc_s; svc_sx=1; a=svc_s=2', [], []],
    ['svc_s="a"; svc_s=b=c', ['"a"', 'b=c'], []],
    [';;; ;svc_s=a;', ['a'], []],
    ['svc_s=1; svc_s=2; svc_s=3; svc_s=4; svc_s=5; svc_s=6', ['1', '2', '3', '4', '5'], []],
  ])('70: of %j are %j over http and %j over https', (header, plain, secure) => {
    expect([visitCookies(header, false), visitCookies(header, true)]).toEqual([plain, secure])
  })

  test('70: of a long header are found at once', () => {
    const ms = cpuMsOf(() => {
      for (const part of [';', '; ', ' ', '=', 'svc_s', ';svc_s', 'svc_s=;'])
        visitCookies(part.repeat(1_000_000 / part.length), false)
    })
    expect(ms).toBeLessThan(1000)
  })
})
