import { analyse } from 'scslre'
import { describe, expect, test } from 'vitest'
import { findPatterns } from './find-patterns.ts'
import { type HostileText, hostileTexts } from './hostile-texts.ts'

// A pattern that takes more than linear time lets the sender of a text hold the process for everybody. No pattern of the product may, even
// when only the platform writes the text today: an exception would have to be proved again with every change of its callers.

/** What stands for the parts of patterns that are made of templates. */
const parts = {
  maxLength: '1000',
  maxTitleLength: '120',
  minLength: '0',
  name: 'name',
  names: 'node.options|shell|workspaces?|(?:global.)?pnpmfile',
  version: 'v1',
}
const found = findPatterns(parts)

test('all patterns of the product are found', () => expect(found.length).toBeGreaterThan(200))

test.each(found.map(({ place, pattern }) => [place, pattern] as const))(
  '51: %s %s has no repeats that share what they repeat',
  (_place, pattern) => expect(analyse(pattern).reports.map(({ type }) => type)).toEqual([]),
)

/** Characters. */
const lengths = [2 * 1024, 8 * 1024, 32 * 1024]
/** Below this the clock decides more than the pattern. */
const floorMs = 10
/** For four times the text a linear pattern takes 4 times as long, a quadratic one 16 times. */
const maxGrowth = 8

describe('51: four times the text costs four times the time', () => {
  const suspects = found.filter(({ pattern }) => analyse(pattern).reports.length === 0)
  test.each(suspects.map(({ place, pattern }) => [place, pattern] as const))('%s %s', (_place, pattern) => {
    expect(hostileTexts(pattern).find((text) => growsTooFast(pattern, text))).toBeUndefined()
  })

  test.each([
    [/cannot transition .*from :(\w+)/i],
    [/one thing|"(?:npm|pnpm)" .*Not compatible/],
    [/\s+$/],
    [/^[^\S\n]*["']?(?:plugins)["']?[^\S\n]*[=:]/im],
    [/^[^a-z]{0,8}(?:[a-z]*|[a-z-]{1,32}: .*)\s*$/],
  ])('the quadratic pattern %s is noticed', (pattern) =>
    expect(hostileTexts(pattern).some((text) => growsTooFast(pattern, text))).toBe(true),
  )
})

function growsTooFast(pattern: RegExp, { before, unit, after }: HostileText): boolean {
  const text = (length: number) => before + unit.repeat(Math.ceil(length / unit.length)) + after
  const length = lengths.find((length) => timeOf(pattern, text(length), 1) > floorMs)
  if (length === undefined) return false
  // a quadratic pattern is too slow in every try, a linear one only in those that something disturbed
  for (let attempt = 0; attempt < 5; attempt++) {
    const whole = timeOf(pattern, text(length), 3)
    if (whole <= floorMs || whole / timeOf(pattern, text(length / 4), 3) <= maxGrowth) return false
  }
  return true
}

/** Milliseconds of the processor, of the fastest of some runs: what else runs on the machine does not count. */
function timeOf(pattern: RegExp, text: string, runs: number): number {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs; run++) {
    const before = process.threadCpuUsage()
    if (pattern.global) text.replaceAll(pattern, '')
    else pattern.test(text)
    const { user, system } = process.threadCpuUsage(before)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}
