import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type World, world } from '../world.ts'

let w: World
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

test('check 63: how long a wrong key takes does not tell whether its id exists', async () => {
  const { key } = await w.project()
  const [prefix, id] = key.split('_')
  const secret = () => randomBytes(33).toString('base64url').slice(0, 43)
  const known = () => `${prefix}_${id}_${secret()}`
  const unknown = () => `${prefix}_${randomBytes(4).toString('hex')}_${secret()}`
  const timed = async (wrong: string) => {
    const startedAt = performance.now()
    const { status } = await w.call('GET /api/v1/whoami', { key: wrong })
    expect(status).toBe(401)
    return performance.now() - startedAt
  }
  for (let warmUp = 0; warmUp < 200; warmUp++) await timed(warmUp % 2 ? known() : unknown())
  const times = { known: [] as number[], unknown: [] as number[] }
  // one after the other, each first in half of the pairs: what the machine does besides meets both alike
  for (let pair = 0; pair < 2500; pair++) {
    const order = pair % 2 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const)
    for (const kind of order) times[kind].push(await timed(kind === 'known' ? known() : unknown()))
  }
  const [ofKnown, ofUnknown] = [median(times.known), median(times.unknown)]
  console.log(`medians of 2,500 each: ${ofKnown.toFixed(3)} ms for a known id, ${ofUnknown.toFixed(3)} ms for an unknown one`)
  expect(Math.abs(ofKnown - ofUnknown)).toBeLessThan(0.05 * Math.max(ofKnown, ofUnknown))
})
