import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { type World, world } from '../world.ts'
import { type EventStream, openEvents } from './event-stream.ts'

// How many live views an api gives at once, and to whom.

const ofProject = 20
const ofServer = 200

let w: World
beforeAll(async () => {
  w = await world({ worker: false, liveTiming: { pollMs: 1000, recheckMs: 60_000, maxAgeMs: 3_600_000 } })
})
afterAll(() => w?.[Symbol.asyncDispose]())

async function watcher() {
  const project = await w.project('free')
  const path = `/api/v1/sites/${(await makeSite(w, project)).id}/stats/live`
  const open = (key = project.key) => openEvents(w.base + path, { authorization: `Bearer ${key}` })
  return {
    project,
    path,
    open,
    openMany: (count: number) => Promise.all(Array.from({ length: count }, () => open())),
    /** The status of one more stream, which is left again. */
    async tryOne(key?: string) {
      const stream = await open(key)
      stream.leave()
      return stream.response.status
    },
  }
}

const leaveAll = (streams: readonly EventStream[]) => {
  for (const stream of streams) stream.leave()
}

test('E38: all keys of a project share its streams, and other projects have theirs', async () => {
  const [one, other] = [await watcher(), await watcher()]
  const streams = await one.openMany(ofProject)
  expect(await one.tryOne(await w.key(one.project, 'readonly'))).toBe(429)
  expect(await other.tryOne()).toBe(200)
  leaveAll(streams)
})

test('E38: streams whose clients vanish before the first event keep no place', async () => {
  const { project, path, openMany } = await watcher()
  const { hostname, port } = new URL(w.base)
  const head = `GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${project.key}\r\n\r\n`
  for (let n = 0; n < 60; n++) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined)
    await new Promise<void>((resolve) => socket.write(head, () => resolve()))
    if (n % 3 > 0) await new Promise((resolve) => setTimeout(resolve, n % 3))
    socket.resetAndDestroy()
  }
  await expect
    .poll(async () => {
      const streams = await openMany(ofProject)
      leaveAll(streams)
      return streams.filter(({ response }) => response.status === 200).length
    })
    .toBe(ofProject)
})

test('E38: beyond 200 streams an api answers 503 with what to do, until one of them ends', async () => {
  const watchers = await Promise.all(Array.from({ length: ofServer / ofProject }, () => watcher()))
  // places of earlier tests may still be taken
  await expect.poll(() => watchers[0]?.tryOne()).toBe(200)
  const streams: EventStream[] = []
  for (const { openMany } of watchers) streams.push(...(await openMany(ofProject)))
  expect(streams.filter(({ response }) => response.status !== 200)).toEqual([])
  const late = await watcher()
  const { response } = await late.open()
  expect([response.status, await response.json()]).toEqual([
    503,
    { message: 'too many live views are open; ask for one answer with follow=false' },
  ])
  const once = await w.call(`GET ${late.path}?follow=false`, { key: late.project.key })
  expect([once.status, once.body]).toEqual([200, { visitors: 0, paths: [] }])
  // those who watch still do
  expect(await streams[0]?.next()).toMatchObject({ event: 'live' })
  streams.at(-1)?.leave()
  await expect.poll(() => late.tryOne()).toBe(200)
  leaveAll(streams)
})
