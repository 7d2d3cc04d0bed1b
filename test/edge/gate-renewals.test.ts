import { describe, expect, test } from 'vitest'
import type { AccessMode } from '../../core/access.ts'
import type { RouteLock } from '../../services/feeds/locks.ts'
import { combine, hosts, type Judged, judge, openPair, shapes } from './gate-matrix.ts'
import { reading, spread } from './gate-mutants.ts'
import { locks, refusedBy, refusedStates, renewableStates } from './gate-visits.ts'
import { type TestEdgeOptions, visits } from './test-edge.ts'

// The visit of a subscriber holds for a day, and is then renewed for as long as its cookie is kept.

const paths = ['/', '/style.css', '/old', '/missing']
/** Whether an answer sends a browser to have the visit of a subscriber renewed. */
const isRenewal = ({ answer }: Judged) => answer.includes('\r\nLocation: /__svc/renew?to=')

/** The states whose visits are renewed, with the ways of asking. */
async function renewedIn(lock: RouteLock, options: TestEdgeOptions = {}) {
  await using pair = await openPair(lock, options)
  const states = { ...refusedStates, ...refusedBy[lock.mode] }
  const renewed = (await judge(pair, combine({ states, paths: paths, shapes, hosts: [hosts[0]] }))).filter(isRenewal)
  const of = (part: (one: Judged) => string) => [...new Set(renewed.map(part))]
  return { states: of(({ visit }) => visit), methods: of(({ bytes }) => bytes.split(' ')[0] ?? ''), count: renewed.length }
}

describe('E36: a visit is sent to its renewal', () => {
  test('when it is one of a subscriber, was granted within 30 days and is over, and a browser asks for a page', async () => {
    expect(await renewedIn(locks.subscribers)).toEqual({ states: renewableStates, methods: ['GET'], count: paths.length })
  })

  test.each((Object.keys(locks) as AccessMode[]).filter((mode) => mode !== 'subscribers'))(
    'never with the lock %s',
    async (mode) => {
      expect((await renewedIn(locks[mode])).count).toBe(0)
    },
  )

  test.each<[check: string, TestEdgeOptions, states: string[]]>([
    [
      'the age',
      reading((place, text) => {
        const visit = visits.read(place, text)
        return visit && visit.until < new Date() ? { ...visit, until: new Date(Date.now() - 1000) } : visit
      }),
      ['a visit that is over', 'a visit that has been over for 30 days'],
    ],
    [
      'the generation',
      reading((place, text) => spread(visits.read(place, text), { generation: 99 })),
      ['a visit that is over', 'a visit of a lower generation that is over'],
    ],
    [
      'the method',
      { prepare: (req) => Object.assign(req, { method: req.method === 'HEAD' ? 'GET' : req.method }) },
      ['a visit that is over'],
    ],
  ])('check 70: the matrix notices that nobody checks %s', async (check, options, found) => {
    const { states, count } = await renewedIn(locks.subscribers, options)
    expect(states).toEqual(found)
    if (check === 'the method') expect(count).toBeGreaterThan(paths.length)
  })
})
