import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { openEvents } from './event-stream.ts'

let w: World
let owner: TestProject
let siteId: string
beforeAll(async () => {
  w = await world({ worker: false, liveTiming: { pollMs: 20, recheckMs: 100, maxAgeMs: 3_600_000 } })
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  owner = await w.project('free')
  siteId = (await makeSite(w, owner)).id
})

const urlOf = (id: string, query = '') => `${w.base}/api/v1/sites/${id}/stats/live${query}`
const follow = (key = owner.key, query = '', headers = {}) =>
  openEvents(urlOf(siteId, query), { authorization: `Bearer ${key}`, ...headers })
const answered = (headers = {}) => w.call(`GET /api/v1/sites/${siteId}/stats/live?follow=false`, { key: owner.key, headers })

const secondsAgo = (seconds: number) => new Date(w.clock().getTime() - seconds * 1000)
const visit = (seconds: number) =>
  w.db
    .insertInto('live_visitors')
    .values({ site_id: siteId, visitor: randomBytes(12), seen_at: secondsAgo(seconds) })
    .execute()
const hit = (path: string, hits: number, seconds = 0) =>
  w.db
    .insertInto('live_paths')
    .values({ site_id: siteId, path, hits, minute: secondsAgo(seconds) })
    .execute()

const nobody = { visitors: 0, paths: [] }
const live = (data: object) => ({ event: 'live', id: undefined, data })

test('E38: a stream tells at once who is there, and later what changes', async () => {
  const stream = await follow()
  expect(Object.fromEntries(stream.response.headers)).toMatchObject({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  })
  expect(await stream.next()).toEqual(live(nobody))
  await visit(1)
  expect(await stream.next()).toEqual(live({ ...nobody, visitors: 1 }))
  await hit('/', 5)
  expect(await stream.next()).toEqual(live({ visitors: 1, paths: [{ path: '/', hits: 5 }] }))
  stream.leave()
})

test('E38: the last five minutes count', async () => {
  for (const seconds of [1, 299, 301]) await visit(seconds)
  await hit('/', 3, 10)
  await hit('/', 2, 290)
  await hit('/', 50, 310)
  expect((await answered()).body).toEqual({ visitors: 2, paths: [{ path: '/', hits: 5 }] })
})

test('E38 K05: a path with 4 hits is hidden, one with 5 is shown', async () => {
  await hit('/four', 4)
  await hit('/five', 5)
  await hit('(other)', 500)
  expect((await answered()).body.paths).toEqual([{ path: '/five', hits: 5 }])
})

test('E38: the 20 paths with the most hits are shown', async () => {
  for (let n = 0; n < 22; n++) await hit(`/${n}`, 5 + n)
  const { paths } = (await answered()).body
  expect([paths.length, paths[0], paths.at(-1)]).toEqual([20, { path: '/21', hits: 26 }, { path: '/2', hits: 7 }])
})

test('E38: what leaves the five minutes is a change', async () => {
  await visit(1)
  const stream = await follow()
  expect(await stream.next()).toEqual(live({ ...nobody, visitors: 1 }))
  w.advance(301_000)
  expect(await stream.next()).toEqual(live(nobody))
  stream.leave()
})

test('E38: those who watch the same site see the same, from one look at it', async () => {
  const streams = await Promise.all([follow(), follow(), follow()])
  for (const stream of streams) expect(await stream.next()).toEqual(live(nobody))
  await visit(1)
  const seen = await Promise.all(streams.map((stream) => stream.next()))
  expect(seen).toEqual(Array(3).fill(live({ ...nobody, visitors: 1 })))
  for (const stream of streams.slice(1)) stream.leave()
  await visit(1)
  expect(await streams[0]?.next()).toEqual(live({ ...nobody, visitors: 2 }))
  streams[0]?.leave()
})

test('E38: a stream stays open while PostgreSQL does not answer, and goes on after it', async () => {
  const stream = await follow()
  expect(await stream.next()).toEqual(live(nobody))
  await sql`alter table live_paths rename to live_paths_away`.execute(w.db)
  expect((await answered()).status).toBe(500)
  await visit(1)
  await sql`alter table live_paths_away rename to live_paths`.execute(w.db)
  expect(await stream.next()).toEqual(live({ ...nobody, visitors: 1 }))
  stream.leave()
})

test.each([
  ['?follow=false', { accept: 'text/event-stream' }, 'application/json; charset=utf-8'],
  ['', { accept: 'application/json' }, 'application/json; charset=utf-8'],
  ['', { accept: 'application/json, text/plain, */*' }, 'application/json; charset=utf-8'],
  ['', { accept: '*/*' }, 'text/event-stream; charset=utf-8'],
  ['', { accept: 'text/event-stream' }, 'text/event-stream; charset=utf-8'],
  ['?follow=true', { accept: 'application/json' }, 'text/event-stream; charset=utf-8'],
])('E38: %s with %j is answered with %s', async (query, headers, type) => {
  const stream = await follow(owner.key, query, headers)
  expect([stream.response.status, stream.response.headers.get('content-type')]).toEqual([200, type])
  stream.leave()
})

test('E38: HEAD has no stream, and another value of follow is refused', async () => {
  const authorization = `Bearer ${owner.key}`
  const head = await fetch(urlOf(siteId), { method: 'HEAD', headers: { authorization } })
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  expect((await fetch(urlOf(siteId, '?follow=yes'), { headers: { authorization } })).status).toBe(422)
})

test('A03: a site of another project is absent', async () => {
  const { key } = await w.project()
  const { response } = await follow(key)
  expect([response.status, await response.json()]).toEqual([404, { message: expect.any(String) }])
})

test('E38: a stream ends when its key is revoked, and others go on', async () => {
  const key = await w.key(owner, 'readonly')
  const [stream, other] = [await follow(key), await follow()]
  await w.call(`DELETE /operator/v1/projects/${owner.id}/keys/${key.slice(4, 12)}`, { key: operatorToken })
  expect(await stream.all()).toEqual([live(nobody), { event: 'end', id: undefined, data: { reason: 'key_revoked' } }])
  await other.next()
  await visit(1)
  expect(await other.next()).toEqual(live({ ...nobody, visitors: 1 }))
  other.leave()
})

test('E38: a stream goes on while its site is in the trash, and ends when the site is removed', async () => {
  const stream = await follow()
  expect(await stream.next()).toEqual(live(nobody))
  await w.call(`DELETE /api/v1/sites/${siteId}`, { key: owner.key })
  await visit(1)
  expect(await stream.next()).toEqual(live({ ...nobody, visitors: 1 }))
  await w.db.deleteFrom('subdomains').where('site_id', '=', siteId).execute()
  await w.db.deleteFrom('sites').where('id', '=', siteId).execute()
  expect(await stream.next()).toEqual({ event: 'end', id: undefined, data: { reason: 'site_deleted' } })
  expect(await stream.next()).toBeUndefined()
})

test('E38: a project has at most 20 streams at once, and those who leave make room', async () => {
  const streams = await Promise.all(Array.from({ length: 20 }, () => follow()))
  expect(streams.map(({ response }) => response.status)).toEqual(Array(20).fill(200))
  const { response } = await follow()
  expect([response.status, response.headers.get('retry-after')]).toEqual([429, '10'])
  expect(await response.json()).toEqual({ message: expect.stringContaining('has 20 live views already') })
  // they are no requests under way
  expect((await answered()).status).toBe(200)
  for (const stream of streams) stream.leave()
  await expect
    .poll(async () => {
      const stream = await follow()
      stream.leave()
      return stream.response.status
    })
    .toBe(200)
})

describe('a stream', () => {
  let v: World
  beforeAll(async () => {
    v = await world({ worker: false, liveTiming: { pollMs: 20, recheckMs: 60, maxAgeMs: 400 } })
  })
  afterAll(() => v?.[Symbol.asyncDispose]())

  const open = async () => {
    const project = await v.project('free')
    const { id } = await makeSite(v, project)
    return openEvents(`${v.base}/api/v1/sites/${id}/stats/live`, { authorization: `Bearer ${project.key}` })
  }

  test('E38: ends after its time, to be opened again', async () => {
    const stream = await open()
    expect(await stream.all()).toEqual([live(nobody), { event: 'end', id: undefined, data: { reason: 'max_age' } }])
  })

  test('E38: ends at once when the api stops', async () => {
    const stream = await open()
    v.drain()
    expect(await stream.all()).toEqual([live(nobody)])
  })
})
