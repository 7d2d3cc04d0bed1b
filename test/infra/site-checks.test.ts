import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ManifestEntry } from '../../core/manifest.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { type FactsReader, openFactsReader } from '../../services/checks/facts-reader.ts'
import type { FileToRead } from '../../services/checks/facts-thread.ts'
import { createSiteChecks } from '../../services/checks/find-recommendations.ts'
import { readPageFacts } from '../../services/checks/page-facts.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

let dir: string
let disk: Cas
let reader: FactsReader
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-site-checks-'))
  disk = await openDiskCas(dir)
  reader = openFactsReader()
})
afterAll(async () => {
  await reader[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

const put = async (path: string, text: string | Buffer): Promise<ManifestEntry> => ({
  path,
  ...(await disk.put(Buffer.from(text))),
})
const budgetMs = 60_000
const payer = 'a project'

describe('a page is read as browsers read it', () => {
  test.each<[string, Partial<ReturnType<typeof readPageFacts>>]>([
    ['<TITLE>\n Caf&eacute; </TITLE>', { hasTitle: true }],
    ['<title> </title>', { hasTitle: false }],
    ['<title>&#32;</title>', { hasTitle: false }],
    ['<svg><title>Logo</title></svg>', { hasTitle: false }],
    ['<svg/><title>Notes</title>', { hasTitle: true }],
    ['<script>"<title>x</title>"</script>', { hasTitle: false, mayRoute: false }],
    ['<p>text', { isDocument: false }],
    ['<!doctype html><p>text', { isDocument: true }],
    ['<html lang=en>', { isDocument: true, hasLang: true }],
    ['<html lang="">', { hasLang: false }],
    ['<meta NAME=viewport content=x>', { hasViewport: true }],
    ['<meta name="description" content=" ">', { hasDescription: false }],
    ['<meta name="robots" content="noindex, follow">', { isUnlisted: true }],
    ['<meta http-equiv="refresh" content="0;URL=/new/">', { forwards: true }],
    ['<meta http-equiv="refresh" content="30">', { forwards: false }],
    ['<link rel="shortcut icon" href="/f.ico">', { hasIcon: true, links: ['/f.ico'] }],
    ['<link rel="apple-touch-icon" href="/t.png">', { hasIcon: false, links: ['/t.png'] }],
    ['<link rel="preconnect" href="/x"><link rel="canonical" href="/y">', { links: [] }],
    ['<a href="/a"><a href=/a?x><a HREF="b&amp;c.html">', { links: ['/a', 'b&c.html'] }],
    ['<a href="first" href="second">', { links: ['first'] }],
    ['<base href="/docs/"><base href="/other/">', { base: '/docs/' }],
    ['<img src=a.png srcset="a.png 1x, b.png 2x">', { links: ['a.png', 'b.png'], imagesWithoutAlt: 1 }],
    ['<img alt><img alt=""><img aria-hidden="true"><img role=presentation>', { imagesWithoutAlt: 0 }],
    [
      '<img alt="" src="http://a.example/b"><img alt src="http://localhost:80/c">',
      { insecure: { count: 1, first: 'http://a.example/b' } },
    ],
    ['<script src="/app.js"></script>', { mayRoute: true, links: ['/app.js'] }],
    ['<script src="https://count.example/x.js"></script>', { mayRoute: false }],
    ['<script type="application/ld+json">{"router": 1}</script>', { mayRoute: false }],
    ['<script type="module">start()</script>', { mayRoute: true }],
    ['<script>Promise.all([import("./start.js")])</script>', { mayRoute: true }],
    ['<script>dataLayer.push("x")</script>', { mayRoute: false }],
  ])('%s', (html, expected) => expect(readPageFacts(html)).toMatchObject(expected))

  test('no more than 500 links of a page are looked at', () => {
    const html = Array.from({ length: 600 }, (_, i) => `<a href="/${i}">`).join('')
    expect(readPageFacts(html).links).toHaveLength(500)
  })
})

test('E28: the next look reads only what has changed', async () => {
  let opened = 0
  const cas: Cas = {
    ...disk,
    open(sha256, encoding) {
      opened += 1
      return disk.open(sha256, encoding)
    },
  }
  const checks = createSiteChecks(cas, reader)
  const files = await Promise.all(
    Array.from({ length: 50 }, (_, i) => put(i ? `${i}.html` : 'index.html', `<title>${i}</title><a href="/${i + 1}">`)),
  )
  const first = await checks.findRecommendations(files, { payer, budgetMs })
  expect([first.complete, opened]).toEqual([true, 50])
  const changed = files.with(7, await put('7.html', '<title>new</title><a href="/gone.html">'))
  const second = await checks.findRecommendations(changed, { payer, budgetMs })
  expect(opened).toBe(51)
  expect(second).not.toEqual(first)
  expect(second.recommendations.find((entry) => entry.path === '7.html')?.message).toContain('/gone.html')
  expect(await checks.findRecommendations(files, { payer, budgetMs })).toEqual(first)
  expect(opened).toBe(51)
})

test('E28: the same bytes are a page under one name and text under another', async () => {
  const checks = createSiteChecks(disk, reader)
  const text = '<!doctype html><a href="/gone.html">'
  const asText = await checks.findRecommendations([await put('index.html.txt', text)], { payer, budgetMs })
  const asPage = await checks.findRecommendations([await put('index.html', text)], { payer, budgetMs })
  expect(asText.recommendations).toEqual([])
  expect(asPage.recommendations.map((entry) => entry.code)).toContain('broken_link')
})

test('E28: of a large page the first megabyte is looked at, and binary files not at all', async () => {
  const secret = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
  const files = [
    await put('index.html', `<title>x</title>${' '.repeat(2 * 1024 * 1024)}${secret}`),
    await put('photo.jpg', secret),
    await put('notes', secret),
    await put('app.js', `${' '.repeat(1024 * 1024 - 100)}${secret} ${' '.repeat(1024)}`),
  ]
  const { recommendations } = await createSiteChecks(disk, reader).findRecommendations(files, { payer, budgetMs })
  const found = recommendations.filter((entry) => entry.code === 'secret_suspected')
  expect(found.map((entry) => entry.path)).toEqual(['notes', 'app.js'])
})

test('E28: a storage that hangs costs no more than the budget', bestOfThree, async () => {
  const cas: Cas = { ...disk, open: () => new Promise(() => undefined) }
  const files = [await put('index.html', 'x'), await put('a.html', 'y')]
  const startedAt = performance.now()
  const result = await createSiteChecks(cas, reader).findRecommendations(files, { payer, budgetMs: 50 })
  expect(result).toEqual({ recommendations: [], complete: false })
  expect(performance.now() - startedAt).toBeLessThan(2000)
})

test('E28: what was found is answered when the time or the caller ends the look', async () => {
  const files = [await put('index.html', '<p>x'), await put('a.html', '<html>y')]
  const checks = createSiteChecks(disk, reader)
  expect((await checks.findRecommendations(files, { payer, budgetMs: 0 })).complete).toBe(false)
  const stopped = { payer, budgetMs, signal: AbortSignal.abort() }
  expect(await checks.findRecommendations(files, stopped)).toEqual({ recommendations: [], complete: false })
  expect((await checks.findRecommendations(files, { payer, budgetMs })).complete).toBe(true)
})

test('51: a long type of a script is not compared with every piece of its text', () => {
  const html = `<svg><script type="${'x'.repeat(200_000)}">${'a&amp;'.repeat(20_000)}`
  const before = process.threadCpuUsage()
  expect(readPageFacts(html).mayRoute).toBe(false)
  expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(1000)
})

describe('the thread that reads files of tenants', () => {
  const hostile = (unit: string) => `<svg><script type="${'x'.repeat(200_000)}">${unit.repeat(800_000 / unit.length)}`
  const small: FileToRead = { bytes: Buffer.from('<title>x</title>'), page: true }

  test.each([
    ['opening tags', '<a'],
    ['attributes', '<a b="c" d='],
    ['links', '<a href="../x/./y">'],
    ['halves of secrets', 'ghp_AKIAsk-ant-'],
  ])('1: a megabyte of %s costs the thread that serves nothing', async (_what, unit) => {
    const file = { bytes: Buffer.from(hostile(unit)), page: true }
    const costMs = async () => {
      const before = process.threadCpuUsage()
      expect((await reader.read([file], payer))[0]).toHaveProperty('page')
      const { user, system } = process.threadCpuUsage(before)
      return (user + system) / 1000
    }
    // collecting what the tests before it left behind may fall into one reading
    await expect.poll(costMs).toBeLessThan(20)
  })

  test('1: a file that takes too long has no facts', async () => {
    await using hasty = openFactsReader(1)
    const file = { bytes: Buffer.from(hostile('<a href="../x/./y">')), page: true }
    expect(await hasty.read([file], payer)).toEqual([{}])
  })

  test('1: a file that took too long is not read again', async () => {
    let opened = 0
    const cas: Cas = {
      ...disk,
      open(sha256, encoding) {
        opened += 1
        return disk.open(sha256, encoding)
      },
    }
    await using hasty = openFactsReader(1)
    const checks = createSiteChecks(cas, hasty)
    const files = [await put('notes.html', hostile('<a href="../x/./y">'))]
    await checks.findRecommendations(files, { payer, budgetMs })
    await checks.findRecommendations(files, { payer, budgetMs })
    expect(opened).toBe(1)
  })

  test('1: the files behind one that takes too long are read', async () => {
    await using hasty = openFactsReader(200)
    const slow: FileToRead = { bytes: Buffer.from(hostile('<a href="../x/./y">').repeat(30)), page: true }
    const [first, ...others] = await Promise.all(
      [slow, small, small, small, small, small].map((file) => hasty.read([file], payer)),
    )
    expect(first).toEqual([{}])
    expect(others.map(([facts]) => facts?.page?.hasTitle)).toEqual([true, true, true, true, true])
  })

  test('1: the files beside one that takes too long are read', async () => {
    await using hasty = openFactsReader(200)
    const slow: FileToRead = { bytes: Buffer.from(hostile('<a href="../x/./y">').repeat(30)), page: true }
    const facts = await hasty.read([small, slow, small], payer)
    expect(facts.map(({ page }) => page?.hasTitle)).toEqual([true, undefined, true])
  })

  test('a project that checks many files delays those of another by a few calls', async () => {
    const done: string[] = []
    const read = (project: string) => reader.read([small], project).then(() => done.push(project))
    const greedy = Array.from({ length: 40 }, () => read('greedy'))
    await Promise.all([...greedy, read('modest'), read('modest')])
    expect(done.lastIndexOf('modest')).toBeLessThan(6)
  })

  test('a closed reader refuses', async () => {
    const own = openFactsReader()
    await own[Symbol.asyncDispose]()
    await expect(own.read([small], payer)).rejects.toThrow('closed')
  })
})
