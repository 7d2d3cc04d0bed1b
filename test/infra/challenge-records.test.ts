import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { cachedChallenges } from '../../infra/dns/challenge-records.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('strangers who ask for a thousand names cause one read a second', async () => {
  let reads = 0
  let rows = [
    { name: '_acme-challenge.a.example', value: 'one' },
    { name: '_acme-challenge.a.example', value: 'two' },
  ]
  const findTxt = cachedChallenges(async () => {
    reads += 1
    return rows
  })
  expect(await findTxt('_acme-challenge.a.example')).toEqual(['one', 'two'])
  await Promise.all(Array.from({ length: 1000 }, async (_, i) => findTxt(`_acme-challenge.r${i}.example`)))
  expect(reads).toBe(1)
  rows = []
  vi.advanceTimersByTime(1000)
  expect(await findTxt('_acme-challenge.a.example')).toBeUndefined()
  expect(reads).toBe(2)
})

test('what cannot be read is no answer, and is read again a second later', async () => {
  let works = false
  const findTxt = cachedChallenges(() =>
    works ? Promise.resolve([{ name: 'n', value: 'v' }]) : Promise.reject(new Error('away')),
  )
  await expect(findTxt('n')).rejects.toThrow('away')
  await expect(findTxt('n')).rejects.toThrow('away')
  works = true
  vi.advanceTimersByTime(1000)
  expect(await findTxt('n')).toEqual(['v'])
})
