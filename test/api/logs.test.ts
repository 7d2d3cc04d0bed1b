import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { nodePackage } from '../runner/builder.ts'
import { type TestProject, type World, world } from '../world.ts'
import { openEvents, type ReceivedEvent } from './event-stream.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true })
  owner = await w.project()
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** Sends files as an archive and does not wait. */
async function send(files: Readonly<Record<string, unknown>>, query = ''): Promise<string> {
  const site = await makeSite(w, owner)
  const bytes = tarGz(Object.entries(files).map(([name, data]) => ({ name, data: String(data) })))
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys${query}`, {
    key: owner.key,
    bytes,
    type: 'application/gzip',
  })
  return body.id
}
const finished = `fs.mkdirSync('dist', { recursive: true }); fs.writeFileSync('dist/index.html', 'x')`
const building = (program: string) => send(nodePackage(`const fs = require('node:fs'); ${program}; ${finished}`))

const logsOf = (id: string, query = '', key = owner.key) => w.call(`GET /api/v1/deploys/${id}/logs${query}`, { key })

/** The whole log in pages of so many bytes. */
async function readPages(id: string, limit: number): Promise<string> {
  let text = ''
  for (let offset = 0; ; ) {
    const { status, body } = await logsOf(id, `?offset=${offset}&limit=${limit}`)
    expect(status).toBe(200)
    text += body.text
    offset = body.next_offset
    if (body.done) return text
  }
}

const follow = (id: string, { query = '?follow=true', headers = {}, key = owner.key } = {}) =>
  openEvents(`${w.base}/api/v1/deploys/${id}/logs${query}`, { authorization: `Bearer ${key}`, ...headers })

const textOf = (events: readonly ReceivedEvent[]) =>
  events
    .filter(({ event }) => event === 'log')
    .map(({ data }) => data.text)
    .join('')

describe('a build', () => {
  let id: string
  let followed: ReceivedEvent[]
  let statusAtFirstLine: string
  let whole: string

  beforeAll(async () => {
    const secret = `ghp_${'a1B2'.repeat(9)}`
    id = await building(`
      console.log('the first line with ${secret}')
      fs.writeFileSync('answer', '')
      setTimeout(() => console.log('\\u001b[32mthe second line €😀\\u001b[0m'), 2500)`)
    const stream = await follow(id)
    expect(stream.response.status).toBe(200)
    expect(Object.fromEntries(stream.response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    followed = []
    for (let event = await stream.next(); event; event = await stream.next()) {
      followed.push(event)
      if (!statusAtFirstLine && textOf(followed).includes('the first line')) {
        const { body } = await w.call(`GET /api/v1/deploys/${id}`, { key: owner.key })
        statusAtFirstLine = body.status
      }
    }
    whole = (await logsOf(id)).body.text
  })

  test('J04: is followed live: its first line arrives while it runs', () => {
    expect(statusAtFirstLine).toBe('building')
    expect(textOf(followed)).toContain('the second line €😀\n')
  })

  test('J04: tells each change of its status once, and its end', () => {
    const statuses = followed.filter(({ event }) => event === 'status').map(({ data }) => data.status)
    expect(statuses.at(-1)).toBe('active')
    expect(statuses).toEqual(['queued', 'building', 'ready', 'active'].filter((status) => statuses.includes(status)))
    expect(followed.at(-1)).toEqual({ event: 'end', id: undefined, data: { status: 'active', error: null } })
    expect(followed.filter(({ event }) => event === 'end')).toHaveLength(1)
  })

  test('J04 E25: reads the same live, in pages and after the fact, over REST and as a tool', async () => {
    expect(textOf(followed)).toBe(whole)
    expect(await readPages(id, 50)).toBe(whole)
    expect(await readPages(id, 1)).toBe(whole)
    const size = Buffer.byteLength(whole)
    const { structuredContent } = await w.tool('get_logs', { deploy_id: id }, owner.key)
    expect(structuredContent).toEqual({ deploy_id: id, status: 'active', text: whole, next_offset: size, done: true })
    expect((await w.tool('get_logs', { deploy_id: id, offset: size - 4, limit: 2 }, owner.key)).structuredContent.done).toBe(
      false,
    )
    expect((await logsOf(id, `?offset=${size + 10}`)).body).toMatchObject({ text: '', next_offset: size + 10, done: true })
  })

  test('J04 B01: begins with what was unpacked and ends with what was stored; secrets and colours are gone', () => {
    expect(whole).toMatch(/^unpacked 3 files\n\$ node -v\nv20/)
    expect(whole).toContain('\nthe first line with [masked]\n')
    expect(whole).toContain('\nthe second line €😀\n')
    expect(whole).toMatch(/\nstored 1 file \(1 byte\) from dist\n$/)
  })

  test('J04: whoever lost the connection gets exactly the rest', async () => {
    const logEvents = followed.filter(({ event }) => event === 'log')
    for (const { id: lastEventId, data } of logEvents) {
      expect(lastEventId).toBe(String(data.next_offset))
      const events = await (
        await follow(id, { query: '?follow=true&offset=1', headers: { 'last-event-id': lastEventId ?? '' } })
      ).all()
      expect(textOf(events)).toBe(Buffer.from(whole).subarray(data.next_offset).toString())
      expect(events.map(({ event }) => event)).toEqual(
        data.next_offset < Buffer.byteLength(whole) ? ['status', 'log', 'end'] : ['status', 'end'],
      )
    }
    expect(textOf(await (await follow(id, { query: '?follow=true&offset=9' })).all())).toBe(whole.slice(9))
  })

  test('J04: is followed by whoever accepts events; follow=false and HEAD are not', async () => {
    const events = await follow(id, { query: '', headers: { accept: 'text/event-stream' } })
    expect(textOf(await events.all())).toBe(whole)
    const page = await follow(id, { query: '?follow=false', headers: { accept: 'text/event-stream' } })
    expect(page.response.headers.get('content-type')).toMatch(/^application\/json/)
    page.leave()
    const head = await fetch(`${w.base}/api/v1/deploys/${id}/logs?follow=true`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${owner.key}` },
    })
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  })

  test.each([
    ['?limit=0', 422],
    ['?limit=1048577', 422],
    ['?offset=-1', 422],
    ['?offset=1.5', 422],
    ['?limit=x', 422],
    ['?follow=yes', 422],
    ['?follow=true&follow=true', 422],
    ['?limit=1048576&offset=0&follow=false', 200],
  ])('J04: %s is %i', async (query, status) => {
    expect((await logsOf(id, query)).status).toBe(status)
  })

  test('J04: an id that is none of an event is 422', async () => {
    const { response } = await follow(id, { headers: { 'last-event-id': 'x' } })
    expect([response.status, await response.json()]).toEqual([422, { message: expect.stringContaining('Last-Event-ID') }])
  })

  test('A03: of another project is absent, also when followed', async () => {
    const { key } = await w.project()
    const missing = { message: expect.stringContaining('no deploy with this id') }
    expect(await logsOf(id, '', key)).toMatchObject({ status: 404, body: missing })
    const { response } = await follow(id, { key })
    expect([response.status, await response.json()]).toEqual([404, missing])
  })
})

test('B06 J04: a build that fails ends with why, in the log and in the last event', async () => {
  const id = await building(`console.log('about to fail'); process.exit(3)`)
  const events = await (await follow(id)).all()
  expect(textOf(events)).toMatch(/\nabout to fail\n(?:.*\n)*failed: npm run build failed with exit code 3[^\n]*\n$/)
  expect(events.at(-1)).toMatchObject({
    event: 'end',
    data: { status: 'failed', error: expect.stringContaining('about to fail') },
  })
})

test('J04 B04: a static archive has a log that says what happened', async () => {
  const id = await send({ 'index.html': 'x'.repeat(2000), 'a/b.txt': 'x', '.env': 'SECRET=1' })
  await w.ended(id, owner.key)
  expect((await logsOf(id)).body).toMatchObject({
    status: 'active',
    done: true,
    text: 'unpacked 3 files\nstored 2 files (2 KB)\nleft out 1 path (files of this name are never published): .env\n',
  })
})

test('J04: what is built without publishing ends ready', async () => {
  const id = await send({ 'index.html': 'x' }, '?activate=false')
  expect((await (await follow(id)).all()).at(-1)).toMatchObject({ event: 'end', data: { status: 'ready', error: null } })
})

test('J04: stored files have an empty log, done at once', async () => {
  const site = await makeSite(w, owner)
  const { id } = await deployFiles(w, owner, site.id, [page('x')])
  expect((await logsOf(id)).body).toEqual({ deploy_id: id, status: 'active', text: '', next_offset: 0, done: true })
  expect(await (await follow(id)).all()).toEqual([
    { event: 'status', id: undefined, data: { status: 'active' } },
    { event: 'end', id: undefined, data: { status: 'active', error: null } },
  ])
})

describe('while a build waits', () => {
  let v: World
  let project: TestProject
  let id: string
  beforeAll(async () => {
    v = await world({ worker: false })
    project = await v.project()
    const site = await makeSite(v, project)
    const bytes = tarGz([{ name: 'index.html', data: 'x' }])
    id = (await v.call(`POST /api/v1/sites/${site.id}/deploys`, { key: project.key, bytes, type: 'application/gzip' })).body.id
  })
  afterAll(() => v?.[Symbol.asyncDispose]())

  const open = (signal: AbortSignal) =>
    fetch(`${v.base}/api/v1/deploys/${id}/logs?follow=true`, { headers: { authorization: `Bearer ${project.key}` }, signal })

  test('J04: its log is empty and not done', async () => {
    const { body } = await v.call(`GET /api/v1/deploys/${id}/logs`, { key: project.key })
    expect(body).toEqual({ deploy_id: id, status: 'queued', text: '', next_offset: 0, done: false })
  })

  test('J04: a project follows at most 20 logs at once, and those who leave make room', async () => {
    const left = new AbortController()
    const streams = await Promise.all(Array.from({ length: 20 }, () => open(left.signal)))
    expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200))
    const refused = await open(new AbortController().signal)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10'])
    expect(await refused.json()).toEqual({ message: expect.stringContaining('follows 20 logs already') })
    left.abort()
    await Promise.allSettled(streams.map((stream) => stream.text()))
    const again = new AbortController()
    await expect.poll(async () => (await open(again.signal)).status).toBe(200)
    again.abort()
  })

  test('J04: what others write into it is shown to all who follow, from one look at it', async () => {
    const left = new AbortController()
    const readers = await Promise.all(
      [1, 2].map(async () => (await open(left.signal)).body?.pipeThrough(new TextDecoderStream()).getReader()),
    )
    await v.buildLogs.append(id, Buffer.from('hello\n'))
    for (const reader of readers) {
      let text = ''
      while (!text.includes('"text":"hello\\n"')) text += (await reader?.read())?.value
    }
    left.abort()
  })

  test('J04: followers are sent away at once when the api stops, to come back to the next', async () => {
    const stream = await open(new AbortController().signal)
    v.drain()
    expect(await stream.text()).toMatch(/^event: status\n(?:.*\n)*\n$/)
    expect(await (await open(new AbortController().signal)).text()).toBe('')
  })
})
