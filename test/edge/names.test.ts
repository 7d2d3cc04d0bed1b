import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openTestEdge, platformDomain, type TestEdge } from './test-edge.ts'

// Subdomains that a site had before.

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
})
afterAll(() => edge?.[Symbol.asyncDispose]())

const soon = () => new Date(Date.now() + 3_600_000).toISOString()
const long = () => new Date(Date.now() - 1).toISOString()
const files = { 'index.html': 'home' }

async function show(subdomain: string, path = '/', headers = {}) {
  const { status, headers: got, body } = await edge.ask(path, { host: `${subdomain}.${platformDomain}`, headers })
  return status === 200 ? body.toString() : [status, got.location]
}

test.each([
  ['/', '/'],
  ['/a/b.html?q=1&r=%2F', '/a/b.html?q=1&r=%2F'],
  ['/a%20b/%C3%A9', '/a%20b/%C3%A9'],
  ['//evil.example/', null],
])('E13: %s of a former name leads to %s of the present one', async (path, target) => {
  await edge.publish('present', files, { former: [{ subdomain: 'before', until: soon() }] })
  const seen = await show('before', path)
  if (target === null) expect(String(seen)).not.toMatch(/^301,\w+:\/\/evil/)
  else expect(seen).toEqual([301, `http://present.plinth.test:8080${target}`])
})

test('E13: a redirect may not be kept by browsers, so a name that is taken back does not loop', async () => {
  const { headers } = await edge.ask('/', { host: `before.${platformDomain}` })
  expect(headers['cache-control']).toBe('no-cache')
  await edge.publish('one', files, { former: [{ subdomain: 'two', until: soon() }] })
  expect([await show('one'), await show('two')]).toEqual(['home', [301, 'http://one.plinth.test:8080/']])
  await edge.publish('two', files, { site_id: 'id-of-one', version: 2, former: [{ subdomain: 'one', until: soon() }] })
  expect([await show('one'), await show('two')]).toEqual([[301, 'http://two.plinth.test:8080/'], 'home'])
})

test('E13: a former name is nobodys when its time is over, without news from the database', async () => {
  const until = Date.now() + 3000
  await edge.publish('stays', files, { former: [{ subdomain: 'ends', until: new Date(until).toISOString() }] })
  expect(await show('ends')).toEqual([301, 'http://stays.plinth.test:8080/'])
  await vi.waitFor(async () => expect(await show('ends')).toEqual([404, undefined]), { timeout: 60_000, interval: 10 })
  expect(Date.now()).toBeGreaterThanOrEqual(until)
  expect(await show('stays')).toBe('home')
})

test('a former name that another site has by now stays the other sites when the first is read again', async () => {
  await edge.publish('left', files, { former: [{ subdomain: 'moved', until: long() }] })
  await edge.publish('moved', { 'index.html': 'another' })
  expect(await show('moved')).toBe('another')
  // the site that had it is read again, without the name
  await edge.publish('left', files, { version: 2 })
  expect(await show('moved')).toBe('another')
})

test('T02: the former names of a site in the trash are as little served as its own', async () => {
  const former = [{ subdomain: 'was', until: soon() }]
  await edge.publish('is', files, { former, trashed: true })
  expect([await show('is'), await show('was')]).toEqual([
    [404, undefined],
    [404, undefined],
  ])
  await edge.publish('is', files, { former, version: 2, enabled: false })
  expect(await show('was')).toEqual([301, 'http://is.plinth.test:8080/'])
  edge.routes.apply([], ['id-of-is'])
  expect([await show('is'), await show('was')]).toEqual([
    [404, undefined],
    [404, undefined],
  ])
})
