import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { builtBy, makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true, ownTemporal: true, env: { PLINTH_BUILD_SLOTS: '3' } })
  owner = await w.project('start')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const plinthJson = builtBy('mkdir dist && echo x > dist/index.html')

async function send(siteId: string): Promise<string> {
  const bytes = tarGz([{ name: 'plinth.json', data: plinthJson }])
  const request = `POST /api/v1/sites/${siteId}/deploys`
  return (await w.call(request, { key: owner.key, bytes, type: 'application/gzip' })).body.id
}

async function scrape(): Promise<string> {
  const { status, headers, body } = await w.call('GET /metrics', { key: operatorToken })
  expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  return body
}

/** The value of one line; undefined when it is not there. */
async function figure(line: string): Promise<number | undefined> {
  const found = (await scrape()).split('\n').find((one) => one.startsWith(`${line} `))
  return found === undefined ? undefined : Number(found.slice(line.length))
}

test('metrics need the operator token, and many wrong ones are refused with 429', async () => {
  expect((await w.call('GET /metrics')).status).toBe(401)
  expect((await w.call('GET /metrics', { key: owner.key })).status).toBe(401)
  const headers = { 'x-forwarded-for': '192.0.2.7' }
  const wrong = []
  for (let i = 0; i < 12; i++) wrong.push((await w.call('GET /metrics', { key: 'wrong-token', headers })).status)
  expect(wrong).toEqual([...Array(10).fill(401), 429, 429])
  expect((await w.call('GET /metrics', { key: operatorToken, headers })).status).toBe(200)
  expect((await w.call('POST /metrics', { key: operatorToken })).status).toBe(404)
})

test('every figure has a help text and a type', async () => {
  const lines = (await scrape()).split('\n')
  const names = new Set(lines.filter((line) => line.startsWith('# TYPE ')).map((line) => line.split(' ')[2] ?? ''))
  const helped = new Set(
    lines.filter((line) => line.startsWith('# HELP ') && line.split(' ').length > 4).map((line) => line.split(' ')[2]),
  )
  expect([...names].filter((name) => !helped.has(name) && name.startsWith('plinth_'))).toEqual([])
  for (const line of lines.filter((one) => one.startsWith('plinth_'))) {
    const name = /^[a-z_]+/.exec(line)?.[0] ?? ''
    expect([line, names.has(name) || names.has(name.replace(/_(bucket|sum|count)$/, ''))]).toEqual([line, true])
  }
  expect(names).toContain('process_resident_memory_bytes')
  expect(await figure('plinth_build_slots')).toBe(3)
})

test('K02: hits that edges could not count are seen', async () => {
  expect(await figure('plinth_stats_dropped_hits')).toBe(0)
  for (const dropped_hits of [2, 3]) {
    const stream = { stream_id: randomUUID(), applied: 1, applied_at: new Date(), dropped_hits }
    await w.db.insertInto('traffic_streams').values(stream).execute()
  }
  expect(await figure('plinth_stats_dropped_hits')).toBe(5)
})

test('B07 Z03: the queue of builds and its age are seen while it waits, the totals and minutes when it has ended', async () => {
  const site = await makeSite(w, owner)
  expect(await figure('plinth_build_queue_length')).toBe(0)
  expect(await figure('plinth_build_queue_oldest_seconds')).toBe(0)
  await w.killTemporal()
  const ids = [await send(site.id), await send(site.id)]
  expect(await figure('plinth_deploys_waiting{kind="archive"}')).toBe(2)
  expect(await figure('plinth_deploys_waiting{kind="manifest"}')).toBe(0)
  expect(await figure('plinth_build_queue_length')).toBe(2)
  expect(await figure('plinth_build_permits_waiting')).toBe(2)
  expect(await figure('plinth_builds_running')).toBe(0)
  expect(await figure('plinth_workflow_messages_waiting')).toBe(2)
  await expect.poll(() => figure('plinth_build_queue_oldest_seconds')).toBeGreaterThan(0)
  expect(await figure('plinth_workflow_messages_oldest_seconds')).toBeGreaterThan(0)
  await w.startTemporal({ forget: false })
  await expect.poll(() => figure('plinth_builds_running')).toBe(1)
  for (const id of ids) await w.ended(id, owner.key)
  expect(await figure('plinth_builds_total{outcome="built"}')).toBe(2)
  expect(await figure('plinth_builds_total{outcome="failed"}')).toBe(0)
  expect(await figure('plinth_build_seconds_count')).toBe(2)
  expect(await figure('plinth_build_seconds_sum')).toBeGreaterThan(0)
  expect(await figure('plinth_build_minutes_month')).toBe(2)
  expect(await figure('plinth_workflow_messages_waiting')).toBe(0)
  expect(await figure('plinth_build_queue_length')).toBe(0)
}, 120_000)

test('requests are counted by the template of their route, and made-up paths share one name', async () => {
  const site = await makeSite(w, owner)
  const line = 'plinth_http_request_duration_seconds_count{route="GET /api/v1/sites/{site_id}",status="200"}'
  await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })
  const before = (await figure(line)) ?? 0
  await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })
  expect(await figure(line)).toBe(before + 1)
  for (const path of ['/made-up', '/other']) await w.call(`GET ${path}`)
  const text = await scrape()
  expect(text).toContain('plinth_http_request_duration_seconds_count{route="other",status="404"}')
  expect(text).not.toContain('made-up')
})

test('while PostgreSQL is away the figures of the process are still there, and none that would be made up', async () => {
  await w.database.forbidConnections(true)
  const text = await scrape()
  await w.database.forbidConnections(false)
  expect(text).toContain('\nplinth_database_up 0\n')
  expect(text).not.toContain('plinth_build_queue_length')
  expect(await figure('plinth_database_up')).toBe(1)
})
