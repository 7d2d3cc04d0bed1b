import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { writeChecked } from '../../edge/checked-json.ts'
import { openRouteTable, type RouteTable } from '../../edge/routes.ts'
import { openSnapshots } from '../../edge/snapshot.ts'
import type { RouteLock } from '../../services/feeds/locks.ts'
import type { Route } from '../../services/feeds/routes.ts'
import { lockOf, log, platformDomain, routeOf } from './test-edge.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-routes-'))
})
afterEach(() => rm(dir, { recursive: true }))

const open = (snapshotDelayMs = 60_000) =>
  openRouteTable({ platformDomain, snapshotDir: join(dir, 'routes'), log, snapshotDelayMs })
const at = (table: RouteTable, subdomain: string) => table.find(`${subdomain}.${platformDomain}`)?.route
const snapshots = async () => (await readdir(join(dir, 'routes'))).filter((name) => name.endsWith('.json')).sort()

describe('the route table', () => {
  test('takes a route only when its version is higher', async () => {
    await using table = await open()
    table.apply([routeOf('site', 'b', { version: 2 })], [])
    table.apply([routeOf('site', 'a', { version: 1 })], [])
    table.apply([routeOf('site', 'a', { version: 1 })], [])
    expect(at(table, 'site')?.manifest_sha256).toBe('b')
    table.apply([routeOf('site', 'c', { version: 3 })], [])
    expect(at(table, 'site')?.manifest_sha256).toBe('c')
  })

  test('takes any version in place of a route of another incarnation of the database, which stays until then, also over a restart', async () => {
    {
      await using table = await open()
      table.useIncarnation('one')
      table.apply([routeOf('site', 'c', { version: 3 }), routeOf('other', 'c', { version: 3 })], [])
      table.useIncarnation('one')
      table.apply([routeOf('site', 'b', { version: 2 })], [])
      expect([at(table, 'site')?.manifest_sha256, table.versionOf('id-of-site')]).toEqual(['c', 3])
    }
    {
      await using table = await open()
      table.useIncarnation('one')
      expect(table.versionOf('id-of-site')).toBe(3)
      table.useIncarnation('two')
      expect([at(table, 'site')?.manifest_sha256, table.versionOf('id-of-site')]).toEqual(['c', 0])
      table.apply([routeOf('site', 'a', { version: 1 })], [])
      expect(at(table, 'site')?.manifest_sha256).toBe('a')
    }
    await using table = await open()
    table.useIncarnation('two')
    expect([at(table, 'site')?.manifest_sha256, at(table, 'other')?.manifest_sha256]).toEqual(['a', 'c'])
    expect([table.versionOf('id-of-site'), table.versionOf('id-of-other')]).toEqual([1, 0])
  })

  test('forgets what a full read does not have, and sites that are gone', async () => {
    await using table = await open()
    table.apply([routeOf('one', null), routeOf('two', null), routeOf('three', null)], [])
    table.keepOnly(new Set(['id-of-one', 'id-of-two']))
    expect(at(table, 'three')).toBeUndefined()
    table.apply([], ['id-of-one', 'id-of-nobody'])
    expect([at(table, 'one'), at(table, 'two')?.subdomain]).toEqual([undefined, 'two'])
  })

  test('a site that changes its name leaves the old one, even when another has taken it before', async () => {
    await using table = await open()
    table.apply([routeOf('old', 'a', { site_id: '1' })], [])
    table.apply([routeOf('old', 'b', { site_id: '2' })], [])
    table.apply([routeOf('new', 'a', { site_id: '1', version: 2 })], [])
    expect(at(table, 'old')?.site_id).toBe('2')
    expect(at(table, 'new')?.site_id).toBe('1')
    table.apply([], ['2'])
    expect(at(table, 'old')).toBeUndefined()
  })
})

describe('preview links of the route table', () => {
  const link = (token_sha256: string) => ({ token_sha256, deploy_id: `deploy of ${token_sha256}`, manifest_sha256: 'm' })

  test('come and go with the versions of their site', async () => {
    await using table = await open()
    const found = (...tokens: string[]) => tokens.map((token) => table.findPreview(token)?.preview.deploy_id)
    table.apply([routeOf('one', null, { previews: [link('a'), link('b')] }), routeOf('two', null, { previews: [link('c')] })], [])
    expect(found('a', 'b', 'c')).toEqual(['deploy of a', 'deploy of b', 'deploy of c'])
    table.apply([routeOf('one', null, { version: 3, previews: [link('b'), link('d')] })], [])
    // late news of an older version
    table.apply([routeOf('one', null, { version: 2, previews: [link('a')] })], [])
    expect(found('a', 'b', 'd', 'c')).toEqual([undefined, 'deploy of b', 'deploy of d', 'deploy of c'])
    expect(table.findPreview('d')?.route.subdomain).toBe('one')
    table.apply([], ['id-of-one'])
    expect(found('b', 'd', 'c')).toEqual([undefined, undefined, 'deploy of c'])
    table.keepOnly(new Set())
    expect(found('c')).toEqual([undefined])
  })

  test('are in the snapshot; one of a time before them has none', async () => {
    {
      await using table = await open()
      table.apply([routeOf('one', null, { previews: [link('a')] })], [])
    }
    {
      await using table = await open()
      expect(table.findPreview('a')).toEqual({ route: at(table, 'one'), preview: link('a') })
    }
    const { previews: _none, ...old } = routeOf('old', 'm')
    {
      await using earlier = await openSnapshots<Route>({
        dir: join(dir, 'routes'),
        name: 'routes',
        complete: (route) => route,
        log,
      })
      earlier.changed(() => ({ incarnation: 'one', entries: [old as Route] }))
    }
    await using table = await open()
    expect(at(table, 'old')).toEqual(routeOf('old', 'm'))
  })
})

describe('the snapshot', () => {
  test('E36: keeps a site closed whose lock is one of a time before members and documents', async () => {
    const { consent_version: _version, terms: _terms, ...earlierLock } = lockOf()
    {
      await using table = await open()
      table.apply([routeOf('old', 'm', { lock: earlierLock as RouteLock })], [])
    }
    await using table = await open()
    expect(at(table, 'old')).toEqual(routeOf('old', 'm', { lock: lockOf() }))
  })

  test('of an earlier release is used, and every version replaces its routes', async () => {
    await mkdir(join(dir, 'routes'))
    const earlier = writeChecked('plinth-routes-1', [routeOf('site', 'a', { version: 7 })])
    await writeFile(join(dir, 'routes', 'routes-000000000001.json'), earlier)
    await using table = await open()
    expect(at(table, 'site')?.manifest_sha256).toBe('a')
    table.useIncarnation('one')
    table.apply([routeOf('site', 'b', { version: 6 })], [])
    expect(at(table, 'site')?.manifest_sha256).toBe('b')
  })

  test('is what the next start begins with, unconnected', async () => {
    {
      await using table = await open()
      table.setConnected(true)
      table.apply([routeOf('one', 'a'), routeOf('two', null, { enabled: false, version: 7 })], [])
    }
    await using table = await open()
    expect(at(table, 'one')).toEqual(routeOf('one', 'a'))
    expect(at(table, 'two')).toEqual(routeOf('two', null, { enabled: false, version: 7 }))
    expect(table.connected).toBe(false)
  })

  test('is written a while after a change, and not when nothing has changed', async () => {
    await using table = await open(10)
    table.apply([routeOf('one', 'a')], [])
    table.apply([routeOf('two', 'a')], [])
    await vi.waitFor(async () => expect(await snapshots()).toHaveLength(1), { timeout: 60_000 })
    table.apply([routeOf('one', 'a')], [])
    table.apply([], ['id-of-nobody'])
    await table[Symbol.asyncDispose]()
    expect(await snapshots()).toHaveLength(1)
  })

  test('only the last three are kept', async () => {
    for (let version = 1; version <= 5; version++) {
      await using table = await open()
      table.apply([routeOf('site', 'a', { version })], [])
    }
    expect(await snapshots()).toEqual([3, 4, 5].map((n) => `routes-00000000000${n}.json`))
  })

  const size = async (file: string) => (await readFile(file)).length
  test.each([
    ['truncated', async (file: string) => truncate(file, (await size(file)) - 20)],
    ['truncated by one byte', async (file: string) => truncate(file, (await size(file)) - 1)],
    ['empty', async (file: string) => truncate(file, 0)],
    [
      'changed in one bit',
      async (file: string) => {
        const bytes = await readFile(file)
        bytes[bytes.length - 30] = (bytes[bytes.length - 30] ?? 0) ^ 1
        await writeFile(file, bytes)
      },
    ],
    ['ten times as long', async (file: string) => writeFile(file, (await readFile(file, 'utf8')).repeat(10))],
    ['of another program', async (file: string) => writeFile(file, '[]')],
    ['no text', async (file: string) => writeFile(file, Buffer.from([0xff, 0xfe, 0, 1]))],
  ])('that is %s is put aside and the one before is used', async (_name, spoil) => {
    for (const version of [1, 2]) {
      await using table = await open()
      table.apply([routeOf('site', `manifest ${version}`, { version })], [])
    }
    await spoil(join(dir, 'routes', 'routes-000000000002.json'))
    await using table = await open()
    expect(at(table, 'site')?.manifest_sha256).toBe('manifest 1')
    expect(await readdir(join(dir, 'routes'))).toContain('routes-000000000002.json.bad')
    table.apply([routeOf('site', 'manifest 3', { version: 3 })], [])
    await table[Symbol.asyncDispose]()
    await using again = await open()
    expect(at(again, 'site')?.manifest_sha256).toBe('manifest 3')
  })

  test('that cannot be written does not stop the serving', async () => {
    await using table = await open(1)
    await rm(join(dir, 'routes'), { recursive: true })
    await writeFile(join(dir, 'routes'), 'a file in the way')
    table.apply([routeOf('site', 'a')], [])
    await table[Symbol.asyncDispose]()
    expect(at(table, 'site')?.manifest_sha256).toBe('a')
  })
})

describe('E36: the time up to which the routes are known', () => {
  const start = Date.parse('2026-03-01T12:00:00.000Z')
  const minute = 60_000
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: start })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const later = (ms: number) => vi.setSystemTime(Date.now() + ms)

  test('is that of the last completed read, not that of a change or of a lost connection', async () => {
    await using table = await open()
    expect(table.confirmedMs).toBe(0)
    table.setConnected(true)
    later(minute)
    table.setConnected(true)
    later(minute)
    table.apply([routeOf('site', 'a')], [])
    table.setConnected(false, 'test')
    expect(table.confirmedMs).toBe(start + minute)
  })

  test('is not extended by a restart', async () => {
    {
      await using table = await open()
      table.setConnected(true)
      table.apply([routeOf('site', 'a')], [])
      later(5 * minute)
    }
    for (let restart = 0; restart < 3; restart++) {
      later(minute)
      await using table = await open()
      expect(table.confirmedMs).toBe(start)
      // whatever is written without PostgreSQL says nothing about it
      table.apply([routeOf('site', 'a', { version: 2 + restart })], [])
    }
  })

  test('is kept without another change', async () => {
    {
      await using table = await open()
      table.setConnected(true)
      table.apply([routeOf('site', 'a')], [])
    }
    {
      await using table = await open()
      later(5 * minute)
      table.setConnected(true)
    }
    await using table = await open()
    expect(table.confirmedMs).toBe(start + 5 * minute)
    expect(await snapshots()).toHaveLength(1)
  })

  test('is not that of a snapshot which lacks a change', async () => {
    {
      await using table = await open()
      table.setConnected(true)
      table.apply([routeOf('site', 'a')], [])
    }
    const dead = await open()
    later(5 * minute)
    dead.apply([routeOf('site', 'b', { version: 2 })], [])
    dead.setConnected(true)
    await using table = await open()
    expect([at(table, 'site')?.manifest_sha256, table.confirmedMs]).toEqual(['a', start])
    await dead[Symbol.asyncDispose]()
  })

  test('is that of the snapshot which is used, when a later one is broken', async () => {
    for (const version of [1, 2]) {
      await using table = await open()
      table.apply([routeOf('site', 'a', { version })], [])
      table.setConnected(true)
      later(minute)
    }
    await truncate(join(dir, 'routes', 'routes-000000000002.json'), 10)
    await using table = await open()
    expect(table.confirmedMs).toBe(start)
  })
})
