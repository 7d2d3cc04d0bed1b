import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { archiveOf, deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type Visit, type World, world } from '../world.ts'

// The rules that a site brings along, from its files to its visitors.

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true, edge: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const redirects = { path: '_redirects', content: '# moved\n/old/:id /new/:id 302\n/nope 410' }
const headers = { path: '_headers', content: '/*\n  X-Frame-Options: DENY' }
const files = [page('home'), { path: '404.html', content: 'not found' }, redirects, headers]

/** Asks until the answer is the wanted one; a test's time limit ends a wait that is in vain. */
async function becomes(subdomain: string, path: string, wanted: (visit: Visit) => boolean): Promise<Visit> {
  for (;;) {
    const visit = await w.visit(subdomain, path)
    if (wanted(visit)) return visit
    await pause(10)
  }
}

const explain = (siteId: string, query: Record<string, string>, key = owner.key) =>
  w.call(`GET /api/v1/sites/${siteId}/explain?${new URLSearchParams(query).toString()}`, { key })

describe('E32: a deploy brings its rules along', () => {
  async function expectRules(site: { subdomain: string }): Promise<void> {
    const moved = await becomes(site.subdomain, '/old/7?a=1', (visit) => visit.status === 302)
    expect(moved.headers.location).toBe('/new/7?a=1')
    const { headers } = await becomes(site.subdomain, '/', (visit) => visit.status === 200)
    expect(headers['x-frame-options']).toBe('DENY')
    expect((await w.visit(site.subdomain, '/_redirects')).status).toBe(404)
  }

  test('sent as files, and as a manifest of stored files', async () => {
    const first = await makeSite(w, owner)
    await deployFiles(w, owner, first.id, files)
    await expectRules(first)
    const published = (await w.call(`GET /api/v1/sites/${first.id}/manifest`, { key: owner.key })).body
    expect(published.map((file: { path: string }) => file.path)).toEqual(['404.html', '_headers', '_redirects', 'index.html'])
    const second = await makeSite(w, owner)
    const json = { files: published }
    const { status } = await w.call(`POST /api/v1/sites/${second.id}/deploys/manifest`, { key: owner.key, json })
    expect(status).toBe(200)
    await expectRules(second)
  })

  test('in an archive of files, and in what a build writes', async () => {
    const plain = Object.fromEntries(files.map(({ path, content }) => [path, content]))
    const script = "const { cpSync } = require('node:fs'); cpSync('site', 'dist', { recursive: true })"
    const built = {
      'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'node build.cjs' } }),
      'package-lock.json': JSON.stringify({ name: 'x', version: '1.0.0', lockfileVersion: 3, packages: {} }),
      'build.cjs': script,
      ...Object.fromEntries(files.map(({ path, content }) => [`site/${path}`, content])),
    }
    for (const source of [plain, built]) {
      const site = await makeSite(w, owner)
      const sent = { key: owner.key, bytes: archiveOf(source), type: 'application/gzip' }
      const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys`, sent)
      expect(await w.ended(body.id, owner.key)).toMatchObject({ status: 'active', error: null })
      await expectRules(site)
      const log = (await w.call(`GET /api/v1/deploys/${body.id}/logs`, { key: owner.key })).body
      expect(JSON.stringify(log)).toContain('line 3 of _redirects is left out: it ')
      const get = async () => (await w.call(`GET /api/v1/deploys/${body.id}`, { key: owner.key })).body.recommendations
      await expect.poll(get).toContainEqual(expect.objectContaining({ code: 'rule_ignored', path: '_redirects' }))
    }
  })

  test('and takes them away again', async () => {
    const site = await makeSite(w, owner)
    const first = await deployFiles(w, owner, site.id, files)
    await expectRules(site)
    await deployFiles(w, owner, site.id, [page('bare')])
    const bare = await becomes(site.subdomain, '/', (visit) => visit.body.includes('bare'))
    expect(bare.headers['x-frame-options']).toBeUndefined()
    expect((await w.visit(site.subdomain, '/old/7')).status).toBe(200)
    await w.call(`POST /api/v1/deploys/${first.id}/activate`, { key: owner.key })
    await expectRules(site)
  })
})

describe('E32: hostile rules', () => {
  const many = (line: string, times: number) => `${line}\n`.repeat(times)
  test.each<[string, object]>([
    ['a file of 5 MB of stars', { _redirects: '*'.repeat(5 * 1024 * 1024) }],
    ['very many short lines', { _redirects: many('/a', 200_000), _headers: many('/a', 200_000) }],
    ['the most rules of the longest lines', { _redirects: many(`/${'a/:b/'.repeat(160)} /x`, 2500) }],
    ['line ends within a value', { _headers: '/*\n  X-A: b\rSet-Cookie: c=d\n  X-B: c\u0000d\n  X-C\u2028: e' }],
    ['no text at all', { _redirects: '\ufeff\u0000\ud83d', _headers: '\uffff'.repeat(5000) }],
  ])('%s cost neither the deploy nor its visitors anything', async (_what, rules) => {
    const site = await makeSite(w, owner)
    const given = Object.entries(rules).map(([path, content]) => ({
      path,
      content: Buffer.from(content).toString('base64'),
      encoding: 'base64',
    }))
    await deployFiles(w, owner, site.id, [page('home'), ...given])
    const { headers } = await becomes(site.subdomain, '/', (visit) => visit.status === 200)
    expect(headers['set-cookie']).toBeUndefined()
  })
})

describe('E32: explain_path', () => {
  let site: any
  let deploy: any
  beforeAll(async () => {
    site = await makeSite(w, owner)
    deploy = await deployFiles(w, owner, site.id, files)
  })

  test('names the line that decides', async () => {
    const { status, body } = await explain(site.id, { path: '/old/7?a=1' })
    expect([status, body]).toEqual([
      200,
      {
        deploy_id: deploy.id,
        status: 302,
        location: '/new/7?a=1',
        file: null,
        headers: [],
        rule: { file: '_redirects', line: 2, text: '/old/:id /new/:id 302' },
        explanation: 'Line 2 of _redirects redirects /old/7 to /new/7?a=1 with the status 302.',
      },
    ])
  })

  test.each([
    ['/', 200, 'index.html', 'The deploy has index.html, which answers /.'],
    ['/404', 200, '404.html', 'The deploy has 404.html, which answers /404.'],
    ['/404.html', 200, '404.html', 'The deploy has the file 404.html.'],
    ['/ünï?x', 404, '404.html', 'The deploy has no file and no rule for /ünï, so 404.html answers.'],
    ['/_headers', 404, '404.html', '_headers configures the site and is not served, so 404.html answers.'],
    ['/__svc/login', 404, null, 'Paths below /__svc belong to the platform.'],
  ])('says what %s answers', async (path, status, file, explanation) => {
    const { body } = await explain(site.id, { path })
    expect(body).toMatchObject({ status, file, rule: null, explanation })
    const visit = await becomes(site.subdomain, encodeURI(path), () => true)
    expect(visit.status).toBe(status)
    const sent = file === null ? [] : [{ name: 'X-Frame-Options', value: 'DENY', lines: [1] }]
    expect(body.headers).toEqual(sent)
  })

  test('asks the named deploy instead of the live one, and the tool answers the same', async () => {
    const other = await deployFiles(w, owner, site.id, [page('x'), { path: '_redirects', content: '/old/* /x' }], false)
    const { body } = await explain(site.id, { path: '/old/7', deploy_id: other.id })
    expect(body).toMatchObject({ status: 301, location: '/x', rule: { line: 1 } })
    const { structuredContent } = await w.tool(
      'explain_path',
      { site_id: site.id, path: '/old/7', deploy_id: other.id },
      owner.key,
    )
    expect(structuredContent).toEqual(body)
  })

  test.each([
    [{ path: 'old' }, 400],
    [{ path: 'https://example.com/old' }, 400],
    [{ path: '/%zz' }, 400],
    [{ path: '/a/../b' }, 400],
    [{ path: '/a#b' }, 400],
    [{ path: '' }, 400],
    [{}, 400],
    [{ path: `/${'x'.repeat(2000)}` }, 422],
    [{ path: '/', deploy_id: 'x' }, 422],
  ])('refuses %j with %i', async (query, status) => {
    const answer = await explain(site.id, query)
    expect([answer.status, answer.body]).toEqual([status, { message: expect.stringMatching(/path|deploy_id/) }])
  })

  test('refuses deploys of other sites, sites of other projects and sites without a deploy', async () => {
    const empty = await makeSite(w, owner)
    expect((await explain(empty.id, { path: '/' })).status).toBe(409)
    expect((await explain(empty.id, { path: '/', deploy_id: deploy.id })).status).toBe(404)
    const other = await w.project()
    expect((await explain(site.id, { path: '/' }, other.key)).status).toBe(404)
  })
})

test('E32: canonical_urls acts within a second, and off again', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, [page('home'), { path: 'about.html', content: 'about' }])
  const set = (canonical_urls: boolean) =>
    w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { name: site.name, canonical_urls } })
  await becomes(site.subdomain, '/about.html', (visit) => visit.status === 200)
  expect((await set(true)).body.canonical_urls).toBe(true)
  const redirect = await becomes(site.subdomain, '/about.html', (visit) => visit.status === 301)
  expect(redirect.headers.location).toBe('/about')
  expect((await explain(site.id, { path: '/about.html' })).body).toMatchObject({
    location: '/about',
    explanation: 'canonical_urls is on, so /about.html redirects to the one address of its page.',
  })
  await set(false)
  await becomes(site.subdomain, '/about.html', (visit) => visit.status === 200)
})

test('E32: a stored set of files has the same manifest every time, with and without rules', async () => {
  const hashes = []
  for (const set of [files, files, [page('home')]]) {
    const site = await makeSite(w, owner)
    const { id } = await deployFiles(w, owner, site.id, set)
    const { manifest_sha256 } = await w.db
      .selectFrom('deploys')
      .select('manifest_sha256')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    hashes.push(manifest_sha256)
  }
  expect(hashes[0]).toBe(hashes[1])
  const bare = JSON.stringify({ files: [{ path: 'index.html', ...factsOf(page('home').content) }] })
  expect(hashes[2]).toBe(createHash('sha256').update(bare).digest('hex'))
})

const factsOf = (content: string) => ({
  sha256: createHash('sha256').update(content).digest('hex'),
  size: Buffer.byteLength(content),
})
