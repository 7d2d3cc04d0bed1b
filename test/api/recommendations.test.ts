import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true })
  owner = await w.project('enterprise')
})
afterAll(() => w[Symbol.asyncDispose]())

const get = async (path: string) => (await w.call(`GET /api/v1/${path}`, { key: owner.key })).body
const send = (siteId: string, files: object[], activate = true) =>
  w.call(`POST /api/v1/sites/${siteId}/deploy-files`, { key: owner.key, json: { files, activate } })
const patch = (site: { id: string; name: string }, change: object) =>
  w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { name: site.name, ...change } })

const head = (title: string) => `<!doctype html><html lang="en"><head>${title}
<meta name="viewport" content="width=device-width"><meta name="description" content="Notes"><link rel="icon" href="data:,"></head>`
const fine = (body = '') => `${head('<title>Notes</title>')}<body>${body}</body></html>`
const untitled = [
  { path: 'index.html', content: `${head('')}<body>Hello</body></html>` },
  { path: '404.html', content: fine() },
]
const titled = [{ path: 'index.html', content: fine() }, untitled[1] ?? {}]
const noTitle = { code: 'missing_title', severity: 'warning', path: 'index.html', message: 'The page has no title.' }

/** What is found in files, as `<code> <path>`, and what is said about it. */
async function findings(files: { path: string; content: string; encoding?: 'base64' }[]): Promise<any[]> {
  const site = await makeSite(w, owner)
  const { status, body } = await send(site.id, files)
  expect([status, body.status]).toEqual([200, 'queued'])
  return body.recommendations
}
const brief = (list: any[]) => list.map((entry) => `${entry.code} ${entry.path}`)

test('Q01 Q02 D14 S10: a page without a title goes live all the same; the deploy and the site say so until it is mended', async () => {
  const site = await makeSite(w, owner)
  expect(site).not.toHaveProperty('recommendations')
  const { body } = await send(site.id, untitled)
  expect(body.recommendations).toEqual([{ ...noTitle, hint: expect.stringContaining('<title>') }])
  const deploy = await w.ended(body.id, owner.key)
  expect(deploy).toMatchObject({ status: 'active', error: null, recommendations: body.recommendations })
  expect(await get(`sites/${site.id}`)).toMatchObject({ active_deploy_id: body.id, recommendations: body.recommendations })

  const mended = await send(site.id, titled)
  expect(mended.body.recommendations).toEqual([])
  expect(await w.ended(mended.body.id, owner.key)).not.toHaveProperty('recommendations')
  expect(await get(`sites/${site.id}`)).not.toHaveProperty('recommendations')
})

test('Q01 D19: a manifest deploy carries them too', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, untitled)
  const files = await get(`sites/${site.id}/manifest`)
  const { status, body } = await w.call(`POST /api/v1/sites/${site.id}/deploys/manifest`, { key: owner.key, json: { files } })
  expect([status, body.recommendations]).toEqual([200, [expect.objectContaining(noTitle)]])
})

test('Q01 S10: what is not published is no finding of the site, but one of its deploy', async () => {
  const site = await makeSite(w, owner)
  await deployFiles(w, owner, site.id, titled)
  const preview = await deployFiles(w, owner, site.id, untitled, false)
  expect(preview).toMatchObject({ status: 'ready', recommendations: [noTitle] })
  expect(await get(`sites/${site.id}`)).not.toHaveProperty('recommendations')
  const path = `POST /api/v1/deploys/${preview.id}/activate`
  expect((await w.call(path, { key: owner.key })).body.recommendations).toMatchObject([noTitle])
  expect(await get(`sites/${site.id}`)).toMatchObject({ recommendations: [noTitle] })
})

test('Q01 B04: an archive is looked through after it was published', async () => {
  const site = await makeSite(w, owner)
  const bytes = tarGz(untitled.map(({ path, content }: any) => ({ name: path, data: content })))
  const request = `POST /api/v1/sites/${site.id}/deploys`
  const { body } = await w.call(request, { key: owner.key, bytes, type: 'application/gzip' })
  expect(body).not.toHaveProperty('recommendations')
  expect(await w.ended(body.id, owner.key)).toMatchObject({ status: 'active' })
  await expect.poll(() => get(`sites/${site.id}`)).toMatchObject({ recommendations: [noTitle] })
})

test('Q01: with checks_enabled off there are none anywhere; switched on again, those of before are back', async () => {
  const site = await makeSite(w, owner)
  const before = await deployFiles(w, owner, site.id, untitled)
  await patch(site, { checks_enabled: false })
  expect(await get(`sites/${site.id}`)).not.toHaveProperty('recommendations')
  expect(await get(`deploys/${before.id}`)).not.toHaveProperty('recommendations')
  expect((await send(site.id, untitled)).body).not.toHaveProperty('recommendations')
  await patch(site, { checks_enabled: true })
  expect(await get(`deploys/${before.id}`)).toMatchObject({ recommendations: [noTitle] })
})

test('Q02: a file that the storage has lost costs the advice, not the deploy', async () => {
  const site = await makeSite(w, owner)
  const content = `${fine()}<!-- ${site.id} -->`
  await deployFiles(w, owner, site.id, [...titled, { path: 'lost.html', content }])
  const sha256 = createHash('sha256').update(content).digest('hex')
  const again = [...titled, { path: 'other.html', sha256 }]
  // what was read before is remembered by its hash
  const changed = [...again, { path: 'unread.txt', sha256: await forgotten(site.id) }]
  const { status, body } = await send(site.id, changed)
  expect([status, body.recommendations]).toEqual([200, []])
  expect(await w.ended(body.id, owner.key)).toMatchObject({ status: 'active' })

  async function forgotten(name: string): Promise<string> {
    const text = `nobody has read ${name}`
    const hash = createHash('sha256').update(text).digest('hex')
    const put = { key: owner.key, bytes: Buffer.from(text), type: 'application/octet-stream' }
    expect((await w.call(`PUT /api/v1/blobs/${hash}`, put)).status).toBe(200)
    await patch(site, { checks_enabled: false })
    await deployFiles(w, owner, site.id, [...titled, { path: 'unread.txt', sha256: hash }])
    await patch(site, { checks_enabled: true })
    await rm(join(w.dir, 'cas', 'objects', hash.slice(0, 2), hash.slice(2)), { force: true })
    return hash
  }
})

describe('E28 through the public face', () => {
  test('one page with everything wrong', async () => {
    const list = await findings([
      {
        path: 'index.html',
        content: `<h1>Hi</h1><img src=a.png><img src="logo.svg" alt=""><a href="/gone.html">x</a><a href="gone/?q#f">y</a>
          <a href="https://elsewhere.example/x">z</a><script src="http://cdn.example/x.js"></script>`,
      },
      { path: 'logo.svg', content: '<svg xmlns="http://www.w3.org/2000/svg"><title>Logo</title></svg>' },
      { path: 'config.js', content: `key = "sk_live_${'a1B2c3D4e5F6'.repeat(2)}"` },
      { path: '_redirects', content: '/old /new\n/gone /new 410' },
      { path: '_headers', content: '/*\n  Cache-Control: no-store\n  X-Frame-Options: DENY\n  Set-Cookie: a=b' },
      { path: 'netlify.toml', content: '[[redirects]]' },
    ])
    expect(brief(list)).toEqual([
      'secret_suspected config.js',
      'broken_link index.html',
      'mixed_content index.html',
      'missing_title index.html',
      'missing_viewport index.html',
      'img_no_alt index.html',
      'rule_ignored _redirects',
      'rule_ignored _headers',
      'cache_header_ignored _headers',
      'config_ignored netlify.toml',
      'missing_lang index.html',
      'missing_description index.html',
      'no_404 404.html',
      'no_favicon favicon.ico',
    ])
    const text = (code: string) => list.find((entry) => entry.code === code).message
    expect(text('broken_link')).toBe('The page points to 3 things that are not there: a.png, /gone.html, gone/.')
    expect(list.filter((entry) => entry.code.endsWith('_ignored')).map((entry) => entry.message)).toEqual([
      'Line 2 of _redirects is left out: it has the status 410, which is none of 200, 301, 302, 303, 307, 308, 404.',
      'Line 4 of _headers is left out: it sets Set-Cookie, which only the platform sets.',
      'Line 2 of _headers is left out: it sets Cache-Control, which only the platform sets.',
      'netlify.toml is not applied here.',
    ])
    expect(text('img_no_alt')).toBe('An image has no alt text.')
    expect(text('mixed_content')).toBe('The page loads a file over http: http://cdn.example/x.js.')
    expect(JSON.stringify(list)).not.toContain('a1B2c3D4')
  })

  test('what only looks wrong is left alone', async () => {
    const body = `<a href="#top"></a><a href="about"></a><a href="./about/../caf%C3%A9.html"></a><a href="blog"></a><a href="mailto:a@b.example"></a>
      <a href="{{ url }}"></a><!-- <img src="gone.png"> --><script>const t = '<img src="gone.png">'</script><template><a href="\${href}"></a></template>
      <svg><title></title><style>a{}</style><a href="/about"><text>t</text></a></svg><img alt src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
      <noscript><img height="1" width="1" src="https://count.example/p"></noscript><link rel="profile" href="http://gmpg.org/xfn/11">
      <link rel="canonical" href="http://notes.example/"><a href="http://old.example/">old</a><a href="/__svc/login">in</a><textarea><a href="no"></textarea>`
    const pages = ['about.html', 'café.html', 'blog/index.html', '404.html']
    const files = pages.map((path) => ({ path, content: fine() }))
    expect(await findings([{ path: 'index.html', content: fine(body) }, ...files])).toEqual([])
  })

  test('E32: a link that a rule of the site answers is whole', async () => {
    const links = ['/old', '/docs/v1/x.html', '/nowhere', '/gone'].map((href) => `<a href="${href}">x</a>`).join('')
    const list = await findings([
      { path: 'index.html', content: fine(links) },
      { path: '404.html', content: fine() },
      { path: '_redirects', content: '/old https://example.com/\n/docs/v1/* /docs/:splat\n/gone /404.html 404' },
    ])
    expect(list.map((entry) => entry.message)).toEqual(['The page points to 2 things that are not there: /nowhere, /gone.'])
  })

  test('an app of one page keeps its own addresses, and is told only of files that are missing', async () => {
    const links = Array.from({ length: 200 }, (_, i) => `<a href="/settings/${i}">s</a>`).join('')
    const scripts = '<div id="root"></div><script type="module" crossorigin src="/assets/index-DkQ3vX1z.js"></script>'
    const list = await findings([
      { path: 'index.html', content: fine(`${scripts}${links}<img alt="" src="/vite.svg">`) },
      { path: 'assets/index-DkQ3vX1z.js', content: 'history.pushState' },
    ])
    expect(list.map((entry) => entry.message)).toEqual(['The page points to something that is not there: /vite.svg.'])
  })

  test('a blog as its generator leaves it has one thing to improve', async () => {
    const page = (
      title: string,
      body: string,
    ) => `<!DOCTYPE html><html lang="en" data-astro-cid-sckkx6r4> <head><meta charset="utf-8">
      <meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" type="image/svg+xml" href="/favicon.svg">
      <link rel="sitemap" href="/sitemap-index.xml"><link rel="alternate" type="application/rss+xml" href="https://notes.example/rss.xml">
      <link rel="preload" href="/fonts/atkinson-regular.woff" as="font" type="font/woff" crossorigin>
      <link rel="canonical" href="https://notes.example/"><title>${title}</title><meta name="description" content="${title}">
      <meta property="og:image" content="https://notes.example/card.jpg"><link rel="stylesheet" href="/_astro/about.C0ejxzEM.css"></head>
      <body><header><nav><a href="/">Home</a><a href="/blog" class="active">Blog</a><a href="/about">About</a>
      <a href="https://m.webtoo.ls/@astro" target="_blank"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M0 0"></path></svg></a></nav></header>
      <main>${body}</main><script type="module">document.querySelector("a")</script></body></html>`
    const image =
      '<img src="/_astro/hero.Bh7d_AaQ_Z1xVcGf.webp" srcset="/_astro/hero.Bh7d_AaQ_Z1xVcGf.webp 1020w" alt="" loading="lazy">'
    const post = '<a href="../">All posts</a><a href="../second-post/#notes">Next</a><a href="/rss.xml">RSS</a>'
    const asset = { content: '', encoding: 'base64' } as const
    const list = await findings([
      { path: 'index.html', content: page('Notes', `${image}<a href="/blog/first-post/">First</a>`) },
      { path: 'about/index.html', content: page('About', image) },
      { path: 'blog/index.html', content: page('Blog', '<a href="/blog/first-post/">1</a><a href="/blog/second-post/">2</a>') },
      { path: 'blog/first-post/index.html', content: page('First', post) },
      { path: 'blog/second-post/index.html', content: page('Second', post) },
      { path: '_astro/about.C0ejxzEM.css', content: 'body{margin:0}' },
      { path: '_astro/hero.Bh7d_AaQ_Z1xVcGf.webp', ...asset },
      { path: 'fonts/atkinson-regular.woff', ...asset },
      { path: 'favicon.svg', content: '<svg xmlns="http://www.w3.org/2000/svg"></svg>' },
      { path: 'rss.xml', content: '<?xml version="1.0"?><rss version="2.0"></rss>' },
      { path: 'sitemap-index.xml', content: '<?xml version="1.0"?><sitemapindex></sitemapindex>' },
    ])
    expect(brief(list)).toEqual(['no_404 404.html'])
  })

  const MB = 1024 * 1024
  const much = (text: string) => text.repeat(Math.ceil(MB / text.length))
  test.each([
    ['deeply nested', much('<div><b>')],
    ['opening brackets', much('<')],
    ['attributes that never end', much('<a href="')],
    ['one huge attribute', `<img src="${much('x')}`],
    ['links that climb', much('<a href=../../../%20>')],
    ['entities', `<a href="${much('&amp;&notit;')}">`],
    ['candidates of an image', much(`<img srcset="${'a 1x, '.repeat(1000)}">`)],
    ['keys that begin', much('-----BEGIN PRIVATE KEY-----')],
    ['controls', much('<a href="\u0000\u0001&#xD800;&#0;">')],
  ])('a page of 1 MB, %s, costs no more than the budget', async (_what, content) => {
    const site = await makeSite(w, owner)
    const startedAt = performance.now()
    const files = [0, 1, 2, 3].map((i) => ({ path: i ? `${i}.html` : 'index.html', content: `${content}<!-- ${i} -->` }))
    const { body } = await send(site.id, files)
    expect(body.recommendations.length).toBeLessThanOrEqual(100)
    expect(performance.now() - startedAt).toBeLessThan(15_000)
    expect(await w.ended(body.id, owner.key)).toMatchObject({ status: 'active' })
    await expect.poll(() => get(`deploys/${body.id}`)).toHaveProperty('recommendations')
  })
})
