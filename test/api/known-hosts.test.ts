import { expect, onTestFinished, test, vi } from 'vitest'
import { createKnownHosts } from '../../api/visitor/known-hosts.ts'

/** Sites have the hosts that begin with `site`; every look-up is noted. */
function noted() {
  const lookUps: { readonly hosts: readonly string[]; readonly at: number }[] = []
  const hosts = createKnownHosts(async (unknown) => {
    lookUps.push({ hosts: unknown, at: performance.now() })
    return new Set(unknown.filter((host) => host.startsWith('site')))
  })
  return { lookUps, has: (host: string) => hosts.has(host) }
}

test('45: hosts that nobody knows are looked up together, at most once a second', async () => {
  const { lookUps, has } = noted()
  expect(await has('first.example')).toBe(false)
  const names = Array.from({ length: 500 }, (_, i) => `${i % 2 ? 'site' : 'other'}-${i}.example`)
  expect(await Promise.all(names.map(has))).toEqual(names.map((name) => name.startsWith('site')))
  expect(lookUps.map(({ hosts }) => hosts)).toEqual([['first.example'], names])
  expect((lookUps[1]?.at ?? 0) - (lookUps[0]?.at ?? 0)).toBeGreaterThan(990)
})

test('45: a host that a site has is looked up once', async () => {
  const { lookUps, has } = noted()
  for (let i = 0; i < 3; i++) expect(await has('site.example')).toBe(true)
  expect(lookUps.length).toBe(1)
})

test('45: a host with visitors is looked up again before it is forgotten, and nobody waits for it', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { lookUps, has } = noted()
  await has('site.example')
  vi.advanceTimersByTime(400_000)
  expect(await has('site.example')).toBe(true)
  await vi.waitFor(() => expect(lookUps.length).toBe(2))
  vi.advanceTimersByTime(400_000)
  const seen = has('site.example').then(() => lookUps.length)
  expect(await seen).toBe(2)
})

test('45: when too many unknown hosts wait, the next one is refused', async () => {
  const { has } = noted()
  await has('first.example')
  const waiting = Array.from({ length: 10_000 }, (_, i) => has(`other-${i}.example`))
  await expect(has('other.example')).rejects.toMatchObject({ kind: 'unavailable' })
  expect(await has('other-1.example')).toBe(false)
  await Promise.all(waiting)
})

test('45: a look-up that fails is not remembered', async () => {
  let isAway = true
  const hosts = createKnownHosts(async (unknown) => {
    if (isAway) throw new Error('the database is away')
    return new Set(unknown)
  })
  await expect(hosts.has('site.example')).rejects.toThrow('away')
  isAway = false
  expect(await hosts.has('site.example')).toBe(true)
})
