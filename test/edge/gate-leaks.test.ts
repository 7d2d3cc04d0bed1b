import { afterEach, describe, expect, test, vi } from 'vitest'
import type { AccessMode } from '../../core/access.ts'
import type { RouteLock } from '../../services/feeds/locks.ts'
import {
  combine,
  hosts,
  type Judged,
  judge,
  mark,
  openPair,
  type Pair,
  paths,
  permanentAddresses,
  permanentHosts,
  previewAddresses,
  requestOf,
  shapes,
} from './gate-matrix.ts'
import { mutants } from './gate-mutants.ts'
import { grantedStates, locks, refusedBy, refusedByLinks, refusedStates } from './gate-visits.ts'
import { platformDomain, type TestEdgeOptions } from './test-edge.ts'

// Check 70: a closed site says nothing about its content. The mutants at the end prove that the matrix notices each check that is missing.

const statusOf = ({ answer }: Judged) => Number(answer.slice(9, 12))
const leaksOf = (judged: readonly Judged[]) => judged.filter(({ leaks }) => leaks).map(({ bytes }) => bytes)
const statusesOf = (judged: readonly Judged[]) => [...new Set(judged.map(statusOf))].toSorted((a, b) => a - b)

let requests = 0
async function expectNoLeaks(pair: Pair, tried: Parameters<typeof judge>[1]): Promise<Judged[]> {
  const judged = await judge(pair, tried)
  requests += judged.length
  console.info(`gate_leaks=${leaksOf(judged).length} of ${judged.length} requests, ${requests} so far`)
  expect(leaksOf(judged).slice(0, 5)).toEqual([])
  return judged
}

const states = { ...refusedStates, ...grantedStates }
const [firstHost] = hosts
const fewPaths = ['/', '/style.css', '/old', '/missing']
const fewShapes = shapes.slice(0, 3)

afterEach(() => {
  vi.useRealTimers()
})

const modes = Object.keys(locks) as AccessMode[]
describe.each(modes)('L02 M02 M03 M10: with the lock %s, an answer does not depend on the content', (mode) => {
  const refused = { ...refusedStates, ...refusedBy[mode] }
  const statuses = (usual: number[]) => (mode === 'subscribers' ? [303, ...usual] : usual)

  test('for every path, method and condition, without a visit', async () => {
    await using pair = await openPair(locks[mode])
    const { 'no visit': none } = refusedStates
    const judged = await expectNoLeaks(pair, combine({ states: none ? { none } : {}, paths, shapes, hosts }))
    expect(statusesOf(judged)).toEqual([400, 401, 404, 405])
    for (const { answer } of judged) {
      expect(answer).toMatch(/\r\nCache-Control: (private, )?no-store\r\n/)
      expect(answer).not.toMatch(/\r\n(ETag|Accept-Ranges|Content-Range|Last-Modified|Location):/i)
    }
  })

  test('for every visit that is refused', async () => {
    await using pair = await openPair(locks[mode])
    const judged = await expectNoLeaks(pair, combine({ states: refused, paths, shapes: fewShapes, hosts: hostsOf(mode) }))
    expect(statusesOf(judged)).toEqual(statuses([400, 401, 404]).toSorted())
    const rest = combine({ states: refused, paths: fewPaths, shapes, hosts: [firstHost] })
    const others = await expectNoLeaks(pair, rest)
    expect(statusesOf(others)).toEqual(statuses([401, 405]).toSorted())
    for (const one of [...judged, ...others]) {
      expect(one.answer).toMatch(/\r\nCache-Control: (private, )?no-store\r\n/)
      expect(one.answer.includes('\r\nLocation: /__svc/renew?to=')).toBe(statusOf(one) === 303)
    }
  })
})

/** The way from a host to its lock is the same for all modes. */
const hostsOf = (mode: AccessMode) => (mode === 'password' || mode === 'email' ? hosts : ([firstHost] as const))

test('L02: hosts that redirect say the same of every site', async () => {
  await using pair = await openPair(locks.password)
  const tried = [`was.${platformDomain}`, 'www.closed.test'].flatMap((host) =>
    paths.flatMap((path) => shapes.map((shape) => ({ visit: 'none', bytes: requestOf(host, path, shape) }))),
  )
  expect(statusesOf(await expectNoLeaks(pair, tried))).toEqual([301, 308, 400, 405])
})

test('L07: after the end of the lock, no visit says anything', async () => {
  const expires_at = new Date(Date.now() - 1).toISOString()
  await using pair = await openPair({ ...locks.password, expires_at })
  const judged = await expectNoLeaks(pair, combine({ states, paths: fewPaths, shapes, hosts }))
  expect(statusesOf(judged)).toEqual([401, 405])
})

test('E36: ten minutes after the last news of the lock, no visit says anything', async () => {
  await using pair = await openPair(locks.password)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 11 * 60_000 })
  const judged = await expectNoLeaks(pair, combine({ states, paths: fewPaths, shapes, hosts }))
  expect(statusesOf(judged)).toEqual([405, 503])
})

const requestsTo = (addresses: typeof previewAddresses, paths: readonly string[]) =>
  addresses.flatMap(({ host, before }) =>
    paths.flatMap((path) => shapes.map((shape) => ({ visit: 'none', bytes: requestOf(host, before + path, shape) }))),
  )
const previewRequests = requestsTo(previewAddresses, fewPaths)

test('E36: closed preview links say nothing', async () => {
  await using pair = await openPair({ ...locks.password, previews_closed: true })
  expect(statusesOf(await expectNoLeaks(pair, previewRequests))).toEqual([404, 405])
})

describe.each(modes)('E34: with the lock %s, a permanent link says nothing of its content', (mode) => {
  const expectRefusals = (judged: readonly Judged[]) => {
    for (const { answer } of judged) {
      expect(answer).not.toMatch(/\r\n(ETag|Accept-Ranges|Content-Range|Last-Modified|Set-Cookie):/i)
      const location = /\r\nLocation: (.*)\r\n/.exec(answer)?.[1]
      // the other form of the link, the one with a slash, and the login of the site
      if (location !== undefined)
        expect(location).toMatch(
          /^(http:\/\/[a-z2-7]{52}\.preview\.test:8080\/|\/[a-z2-7]{52}\/|http:\/\/site\.plinth\.test:8080\/__svc\/ticket\?link=)/,
        )
      if (!answer.startsWith('HTTP/1.1 307')) expect(answer).toMatch(/\r\nCache-Control: (private, )?no-store\r\n/)
    }
  }

  test('for every path, method and condition, in both of its forms', async () => {
    await using pair = await openPair(locks[mode])
    const judged = await expectNoLeaks(pair, requestsTo(permanentAddresses, paths))
    expect(statusesOf(judged)).toEqual([303, 307, 400, 401, 403, 404, 405])
    expectRefusals(judged)
  })

  test('for every visit that is refused', async () => {
    await using pair = await openPair(locks[mode])
    const states = { ...refusedStates, ...refusedBy[mode], ...refusedByLinks }
    const judged = await expectNoLeaks(pair, combine({ states, paths: fewPaths, shapes, hosts: permanentHosts }))
    expect(statusesOf(judged)).toEqual([303, 401, 403, 405])
    expectRefusals(judged)
  })

  test('after the end of the access, and ten minutes after its last news', async () => {
    const expires_at = new Date(Date.now() - 1).toISOString()
    await using ended = await openPair({ ...locks[mode], expires_at })
    const tried = combine({ states, paths: fewPaths, shapes, hosts: permanentHosts })
    expect(statusesOf(await expectNoLeaks(ended, tried))).toEqual([303, 401, 403, 405])
    await using pair = await openPair(locks[mode])
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 11 * 60_000 })
    expect(statusesOf(await expectNoLeaks(pair, tried))).toEqual([403, 405, 503])
  })
})

describe('E34: a visit that passes at a permanent link', () => {
  test('sees the content, which no cache keeps', async () => {
    await using pair = await openPair(locks.email)
    const judged = await judge(
      pair,
      combine({ states: grantedStates, paths: ['/'], shapes: shapes.slice(0, 1), hosts: permanentHosts }),
    )
    for (const { visit, answer } of judged) {
      expect([visit, answer.slice(9, 12), answer.includes(mark)]).toEqual([visit, '200', true])
      expect(answer).toMatch(/\r\nCache-Control: private, no-store\r\n/)
      expect(answer).toMatch(/\r\nVary: (Accept-Encoding, )?Cookie, X-Plinth-Bypass\r\n/)
      expect(answer).toMatch(/\r\nCross-Origin-Resource-Policy: same-origin\r\n/i)
    }
  })

  test('gets nothing that a cache keeps, whatever it asks for', async () => {
    await using pair = await openPair(locks.email)
    const { 'a visit': visit } = grantedStates
    const judged = await judge(pair, combine({ states: visit ? { visit } : {}, paths, shapes, hosts: permanentHosts }))
    expect(judged.filter(({ answer }) => !/\r\nCache-Control: (private, )?no-store\r\n/.test(answer))).toEqual([])
  })
})

describe('L02: a visit that passes', () => {
  test('sees the content', async () => {
    await using pair = await openPair(locks.email)
    const judged = await judge(pair, combine({ states: grantedStates, paths: ['/'], shapes: shapes.slice(0, 1), hosts }))
    expect(judged.map(({ visit, answer }) => [visit, answer.slice(9, 12), answer.includes(mark)])).toEqual(
      judged.map(({ visit }) => [visit, '200', true]),
    )
  })

  test('check 81: gets nothing that a shared cache keeps', async () => {
    await using pair = await openPair(locks.email)
    const judged = await judge(pair, combine({ states: grantedStates, paths, shapes: shapes.slice(0, 2), hosts: [firstHost] }))
    const { 'a visit': visit } = grantedStates
    judged.push(...(await judge(pair, combine({ states: visit ? { visit } : {}, paths, shapes, hosts }))))
    expect(statusesOf(judged)).toEqual([200, 206, 301, 302, 304, 400, 404, 405, 412, 416])
    for (const { answer } of judged) {
      const [head = ''] = answer.split('\r\n\r\n', 1)
      const policies = [...head.matchAll(/\r\n(?:Cache-Control|Vary): (.*)/gi)].map(([, value]) => value)
      if (head.includes('no-store')) expect(policies[0]).toMatch(/^(private, )?no-store$/)
      else expect(policies).toEqual(['private, no-cache', expect.stringMatching(/^(Accept-Encoding, )?Cookie, X-Plinth-Bypass$/)])
    }
  })
})

type Hosts = Parameters<typeof combine>[0]['hosts']

async function caughtBy(lock: RouteLock | null, options: TestEdgeOptions, hosts: Hosts = [firstHost]): Promise<string[]> {
  await using pair = await openPair(lock, options)
  const states = { ...refusedStates, ...refusedBy[lock?.mode ?? 'password'], ...grantedStates }
  const judged = await judge(pair, combine({ states, paths: ['/style.css'], shapes: shapes.slice(0, 1), hosts }))
  const leaking = new Set(judged.filter(({ leaks }) => leaks).map(({ visit }) => visit))
  return [...leaking].filter((visit) => !(visit in grantedStates))
}

describe('check 70: the matrix notices', () => {
  test.each(modes)('nothing while no check is missing, with the lock %s', async (mode) =>
    expect(await caughtBy(locks[mode], {})).toEqual([]),
  )

  for (const [check, options, caught, lock = locks.password] of mutants)
    test(`that nobody checks ${check}`, async () => {
      expect((await caughtBy(lock, options)).toSorted()).toEqual([...caught].toSorted())
      expect((await caughtBy(lock, options, permanentHosts)).toSorted()).toEqual([...caught].toSorted())
    })

  test('that there is no lock', async () => {
    expect(await caughtBy(null, {})).toEqual(Object.keys(refusedStates))
    expect(await caughtBy(null, {}, permanentHosts)).toEqual(Object.keys(refusedStates))
  })

  test('that nobody checks whether previews are closed', async () => {
    await using pair = await openPair(locks.password)
    const judged = await judge(pair, previewRequests)
    expect(judged.filter(({ leaks }) => !leaks).every((one) => statusOf(one) === 405)).toBe(true)
    expect(leaksOf(judged).length).toBeGreaterThan(previewRequests.length / 2)
  })

  test('that nobody checks the end of the lock, or the age of what is known of it', async () => {
    for (const lock of Object.values(locks)) {
      await using pair = await openPair(lock)
      const judged = await judge(pair, combine({ states: grantedStates, paths: fewPaths, shapes: fewShapes, hosts }))
      expect(judged.every(({ leaks }) => leaks)).toBe(true)
    }
  })
})
