import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { maxDownloadsOfAddress, maxRequestsOfAddress } from '../../edge/clients.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { ask, counting, openTestEdge, platformDomain, routeOf, storeFiles } from './test-edge.ts'

const large = Buffer.alloc(9 * 1024 * 1024, 'large file ')

describe('storage faults', () => {
  test.each([
    ['a missing manifest', async () => 'f'.repeat(64)],
    ['a manifest that was cut off', async (cas: Cas) => (await cas.put(Buffer.from('{"files":[{"path":"index.html'))).sha256],
    [
      'a manifest with damage inside',
      async (cas: Cas) => (await cas.put(Buffer.from('{"files":[{"pa\0\0":"index.html"}]}'))).sha256,
    ],
    [
      'a missing object',
      async (cas: Cas) => {
        const files = [{ path: 'index.html', sha256: 'e'.repeat(64), size: 4 }]
        return (await cas.put(Buffer.from(JSON.stringify({ files })))).sha256
      },
    ],
    [
      'an object of another size',
      async (cas: Cas) => {
        const { sha256 } = await cas.put(Buffer.from('cut'))
        return (await cas.put(Buffer.from(JSON.stringify({ files: [{ path: 'index.html', sha256, size: 4 }] })))).sha256
      },
    ],
  ])('%s is 503 that nobody keeps, never 404', async (_name, manifest) => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    edge.routes.apply([routeOf('site', await manifest(edge.cas))], [])
    for (const method of ['GET', 'HEAD']) {
      const answer = await edge.ask('/', { method })
      expect(answer.status).toBe(503)
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(answer.headers['retry-after']).toBe('5')
    }
    expect(counts.open).toBe(0)
  })

  test('a site comes back as soon as its storage does', async () => {
    const faults = { failing: true }
    const wrap = (cas: Cas): Cas => ({
      ...cas,
      open: (...args) => (faults.failing ? Promise.reject(new Error('no storage')) : cas.open(...args)),
    })
    await using edge = await openTestEdge({ wrap })
    await edge.publish('site', { 'index.html': 'home' })
    expect((await edge.ask('/')).status).toBe(503)
    faults.failing = false
    expect((await edge.ask('/')).status).toBe(200)
  })

  test('what is in memory is served without the storage', async () => {
    await using edge = await openTestEdge()
    await edge.publish('site', { 'index.html': 'home' })
    await edge.ask('/')
    await rm(join(edge.dir, 'cas', 'objects'), { recursive: true })
    expect((await edge.ask('/')).status).toBe(200)
  })
})

describe('reading', () => {
  test('many first visitors cause one read of the manifest and one of the file', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    await edge.publish('site', { 'index.html': 'home' })
    const answers = await Promise.all(Array.from({ length: 20 }, () => edge.ask('/')))
    expect(answers.map((answer) => answer.body.toString())).toEqual(Array(20).fill('home'))
    expect(counts).toEqual({ opens: 2, open: 0 })
    await edge.ask('/')
    expect(counts.opens).toBe(2)
  })

  test('a large file is streamed whole and in parts, and nothing stays open', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    await edge.publish('site', { 'index.html': 'home', 'large.bin': large, 'large.txt': large })
    expect((await edge.ask('/large.bin')).body.equals(large)).toBe(true)
    const part = await edge.ask('/large.bin', { headers: { range: 'bytes=1000000-1999999' } })
    expect(part.body.equals(large.subarray(1_000_000, 2_000_000))).toBe(true)
    const head = await edge.ask('/large.bin', { method: 'HEAD' })
    expect(head.headers['content-length']).toBe(String(large.length))
    const gzip = await edge.ask('/large.txt', { headers: { 'accept-encoding': 'gzip' } })
    expect(gzip.headers['content-encoding']).toBe('gzip')
    // the last stream closes after its last byte was sent
    await expect.poll(() => counts.open).toBe(0)
  })

  test('a gzip variant that is large itself is streamed', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    const text = randomBytes(400_000).toString('hex')
    await edge.publish('site', { 'index.html': 'home', 'hex.txt': text })
    for (let i = 0; i < 2; i++) {
      const answer = await edge.ask('/hex.txt', { headers: { 'accept-encoding': 'gzip' } })
      expect(answer.headers['content-encoding']).toBe('gzip')
      expect(gunzipSync(answer.body).toString()).toBe(text)
    }
    await expect.poll(() => counts.open).toBe(0)
  })

  test('visitors who leave in the middle leave nothing open', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    await edge.publish('site', { 'index.html': 'home', 'large.bin': large })
    const leave = async (afterBytes: number) => {
      const outgoing = request({ port: edge.port, path: '/large.bin', headers: { host: `site.${platformDomain}` }, agent: false })
      outgoing.on('error', () => undefined).end()
      if (afterBytes > 0) {
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
        response.on('error', () => undefined)
        await once(response, 'data')
      } else await once(outgoing, 'finish')
      outgoing.destroy()
    }
    await Promise.all(Array.from({ length: 20 }, (_, i) => leave(i % 2)))
    await vi.waitFor(() => expect(counts).toEqual({ opens: expect.any(Number), open: 0 }), { timeout: 60_000 })
    expect((await ask(edge.port, '/large.bin')).body.length).toBe(large.length)
  })

  test('visitors of one address who stop reading large files leave other addresses and small files alone', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap })
    await edge.publish('site', { 'index.html': 'home', 'large.bin': large })
    const from = (client: string) => ({ host: `site.${platformDomain}`, 'x-forwarded-for': client })
    /** Reads the headers and no more. @returns the status, and what ends the download */
    const stall = async (client: string) => {
      const outgoing = request({ port: edge.port, path: '/large.bin', headers: from(client), agent: false })
      outgoing.on('error', () => undefined).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      response.on('error', () => undefined)
      return { status: response.statusCode, leave: () => outgoing.destroy() }
    }
    // addresses of one IPv6 network
    const stalled = await Promise.all(Array.from({ length: maxDownloadsOfAddress }, (_, i) => stall(`2001:db8:1:2::${i}`)))
    expect(new Set(stalled.map(({ status }) => status))).toEqual(new Set([200]))
    const refused = await edge.ask('/large.bin', { headers: from('2001:db8:1:2::ffff') })
    expect([refused.status, refused.headers['retry-after'], refused.headers['cache-control']]).toEqual([429, '10', 'no-store'])
    expect((await edge.ask('/', { headers: from('2001:db8:1:2::ffff') })).status).toBe(200)
    expect((await edge.ask('/large.bin', { headers: from('2001:db8:1:3::1') })).status).toBe(200)
    for (const { leave } of stalled) leave()
    await expect.poll(() => counts.open).toBe(0)
    expect((await edge.ask('/large.bin', { headers: from('2001:db8:1:2::ffff') })).status).toBe(200)
  })

  test('52: more than 512 requests of one address that wait for the storage are refused, until some are answered; others are not', async () => {
    const { promise: answers, resolve: answer } = Promise.withResolvers<void>()
    let opens = 0
    const wrap = (cas: Cas): Cas => ({
      ...cas,
      async open(sha256, encoding) {
        opens += 1
        await answers
        return await cas.open(sha256, encoding)
      },
    })
    await using edge = await openTestEdge({ wrap })
    const manifest = await storeFiles(edge.cas, { 'index.html': 'home' })
    edge.routes.apply([routeOf('site', manifest)], [])
    const from = (client: string) => ({ headers: { 'x-forwarded-for': client } })
    // addresses of one IPv6 network
    const waiting = Array.from({ length: maxRequestsOfAddress }, (_, i) => edge.ask('/', from(`2001:db8:1:2::${i.toString(16)}`)))
    await expect.poll(() => opens).toBeGreaterThan(0)
    await expect.poll(async () => (await Promise.race([edge.ask('/', from('2001:db8:1:2::ffff')), pause(200)]))?.status).toBe(429)
    const refused = await edge.ask('/', from('2001:db8:1:2::ffff'))
    expect([refused.headers['retry-after'], refused.headers['cache-control']]).toEqual(['2', 'no-store'])
    const other = edge.ask('/', from('2001:db8:1:3::1'))
    answer()
    expect((await other).status).toBe(200)
    // those that were asked in between may have taken the place of one of them
    const statuses = (await Promise.all(waiting)).map(({ status }) => status)
    expect(statuses.filter((status) => status !== 200).length).toBeLessThan(20)
    expect((await edge.ask('/', from('2001:db8:1:2::ffff'))).status).toBe(200)
  })

  test('one object under two names is sent with the type of each', async () => {
    await using edge = await openTestEdge()
    await edge.publish('site', { 'index.html': 'same', 'a.css': 'same', 'b.txt': 'same' })
    for (const [path, type] of [
      ['/a.css', 'text/css'],
      ['/b.txt', 'text/plain'],
      ['/', 'text/html'],
    ] as const) {
      expect((await edge.ask(path)).headers['content-type']).toMatch(type)
    }
  })

  test('deploys leave the memory when newer ones need it', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap, limits: { manifestBytes: 1500, fileBytes: 4000, bodyBytes: 2000 } })
    for (const name of ['one', 'two', 'three', 'four']) await edge.publish(name, { 'index.html': name.repeat(200), 'a.txt': 'a' })
    for (const name of ['one', 'two', 'three', 'four', 'one']) {
      // targets with a query are not remembered with their files
      expect((await edge.ask('/?', { host: `${name}.${platformDomain}` })).body.toString()).toMatch(name)
    }
    expect(counts.opens).toBe(10)
  })

  test('visits of sites with large manifests make the edge forget no small one', async () => {
    const { counts, wrap } = counting()
    await using edge = await openTestEdge({ wrap, limits: { manifestBytes: 20_000, smallManifestBytes: 1000, bodyBytes: 1 } })
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`page-${i}.html`, 'page']))
    await edge.publish('small', { 'index.html': 'home' })
    for (const name of ['one', 'two', 'three']) await edge.publish(name, { ...many, 'index.html': name })
    const opensFor = async (name: string) => {
      const before = counts.opens
      expect((await edge.ask('/?', { host: `${name}.${platformDomain}` })).status).toBe(200)
      return counts.opens - before
    }
    await opensFor('small')
    const body = await opensFor('small')
    for (const name of ['one', 'two', 'three', 'one', 'two', 'three']) expect(await opensFor(name)).toBeGreaterThan(body)
    expect(await opensFor('small')).toBe(body)
  })
})

test('V16: while deploys are activated one after the other, each answer is of one of them and none is older than the one before', async () => {
  await using edge = await openTestEdge()
  const deploys = 60
  const hashes: string[] = []
  for (let n = 0; n < deploys; n++) {
    const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`page-${i}.html`, `deploy ${n} page ${i}`]))
    hashes.push(await storeFiles(edge.cas, { 'index.html': `deploy ${n}`, ...files, [`only-${n}.txt`]: `${n}` }))
  }
  const activate = (n: number) => edge.routes.apply([routeOf('site', hashes[n] ?? '', { version: n + 1 })], [])
  activate(0)
  const flips = { done: false }
  const visitor = async (offset: number) => {
    let newest = 0
    for (let i = offset; !flips.done; i++) {
      const page = i % 20
      const answer = await edge.ask(`/page-${page}`)
      const [, n, served] = /^deploy (\d+) page (\d+)$/.exec(answer.body.toString()) ?? []
      expect([answer.status, Number(served)]).toEqual([200, page])
      expect(Number(n)).toBeGreaterThanOrEqual(newest)
      newest = Number(n)
      const own = await edge.ask(`/only-${newest}.txt`)
      // the asset is gone only when a newer deploy is live
      if (own.status !== 200) expect((await edge.ask('/')).body.toString()).not.toBe(`deploy ${newest}`)
    }
    return newest
  }
  const visitors = Array.from({ length: 8 }, (_, i) => visitor(i))
  for (let n = 1; n < deploys; n++) {
    activate(n)
    // a late notice of an older activation changes nothing
    activate(n - 1)
    await edge.ask('/')
  }
  flips.done = true
  await Promise.all(visitors)
  expect((await edge.ask('/')).body.toString()).toBe(`deploy ${deploys - 1}`)
})
