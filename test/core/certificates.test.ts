import { describe, expect, test } from 'vitest'
import { isEnding, nextTryAt, renewalAt, soonestTryAt, unreachablePauseMs } from '../../core/certificates.ts'

const minuteMs = 60_000
const dayMs = 86_400_000

/** When an order that is refused every time is tried, in minutes after its beginning. */
function triesOf(count: number): number[] {
  const refusedAtMs: number[] = []
  let now = 0
  const tries = [0]
  while (tries.length < count) {
    refusedAtMs.push(now)
    now = nextTryAt({ tries: refusedAtMs.length, refusedAtMs }, now, minuteMs)
    tries.push(now / minuteMs)
  }
  return tries
}

describe('the tries of an order', () => {
  test('come in growing pauses, up to six hours', () => {
    const pauseAfter = (tries: number) => nextTryAt({ tries, refusedAtMs: [] }, 0, minuteMs) / minuteMs
    expect([1, 2, 3, 4, 5, 8, 11, 14, 17, 18, 19, 1000].map(pauseAfter)).toEqual([1, 2, 2, 5, 10, 20, 30, 60, 180, 360, 360, 360])
  })

  test('are refused by the authority at most five times in an hour', () => {
    const tries = triesOf(40)
    expect(tries.slice(0, 7)).toEqual([0, 1, 3, 5, 10, 60, 70])
    for (const from of tries) expect(tries.filter((at) => at >= from && at < from + 60).length).toBeLessThanOrEqual(5)
  })

  test('are not put off for what the authority did not refuse', () => {
    expect(soonestTryAt({ refusedAtMs: [1, 2, 3, 4] })).toBe(0)
    expect(soonestTryAt({ refusedAtMs: [1, 2, 3, 4, 5] })).toBe(1 + 60 * minuteMs)
  })
})

test('an authority that does not work is asked after five seconds, and at least every ten minutes', () => {
  expect([1, 2, 3, 8, 30, 1000].map((attempt) => unreachablePauseMs(attempt, minuteMs) / 1000)).toEqual([
    5, 10, 20, 600, 600, 600,
  ])
})

test.each([
  [0, 60],
  [0.5, 58.5],
  [1, 57],
])('a certificate of 90 days is renewed after two thirds of them, or a little earlier (%d)', (random, days) => {
  const from = new Date('2026-01-01T00:00:00Z')
  const renewal = renewalAt(from, new Date(from.getTime() + 90 * dayMs), random)
  expect((renewal.getTime() - from.getTime()) / dayMs).toBeCloseTo(days, 6)
})

test('a certificate that ends within a week is a matter for the operator, a name without one is not', () => {
  const now = new Date()
  expect(
    [null, new Date(now.getTime() + 8 * dayMs), new Date(now.getTime() + 6 * dayMs)].map((end) => isEnding(end, now)),
  ).toEqual([false, false, true])
})
