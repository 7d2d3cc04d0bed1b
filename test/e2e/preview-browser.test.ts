import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { build } from 'vite'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { hasChromium, launchChromium, browserTest as test } from './chromium.ts'

// A build of Vite, looked at through preview links in a real Chromium. It finds *.localhost at the loopback address by itself.

let w: World
let owner: TestProject
let browser: Browser
let files: { path: string; content: string }[]
const cleanup = new AsyncDisposableStack()
beforeAll(async () => {
  if (!hasChromium) return
  const dir = await mkdtemp(join(tmpdir(), 'plinth-vite-'))
  cleanup.defer(() => rm(dir, { recursive: true }))
  await build({
    root: join(import.meta.dirname, 'vite-app'),
    configFile: false,
    logLevel: 'error',
    build: { outDir: join(dir, 'dist'), target: 'esnext', emptyOutDir: true },
  })
  files = await readFolder(join(dir, 'dist'))
  w = cleanup.use(await world({ edge: true }))
  owner = await w.project('enterprise')
  browser = await launchChromium()
  cleanup.defer(() => browser.close())
}, 180_000)
afterAll(() => cleanup.disposeAsync())

let context: BrowserContext
beforeEach(async () => {
  if (hasChromium) context = await browser.newContext()
})
afterEach(() => context?.close())

async function readFolder(dir: string): Promise<{ path: string; content: string }[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return await Promise.all(
    paths.map(async (path) => ({ path: path.slice(dir.length + 1), content: await readFile(path, 'utf8') })),
  )
}

const call = (endpoint: string) => w.call(endpoint, { key: owner.key })

/** The build on a site of its own, unpublished, and its link. */
async function preview(): Promise<{ id: string; site: any; url: string; token: string }> {
  const site = await makeSite(w, owner)
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, {
    key: owner.key,
    json: { files, activate: false },
  })
  expect((await w.ended(body.id, owner.key)).status).toBe('ready')
  const { url, token } = (await call(`POST /api/v1/deploys/${body.id}/preview`)).body
  return { id: body.id, site, url, token }
}

/** What the app has written into its page. */
async function stateOf(page: Page): Promise<any> {
  await page.locator('body[data-ready]').waitFor()
  return JSON.parse((await page.locator('#state').textContent()) ?? '')
}

test('P01 P05 E9: the link opens at an origin of its own, where modules, root-absolute addresses, styles and routes work', async () => {
  expect(files.map((file) => file.path)).toContainEqual(expect.stringMatching(/^assets\/index-[\w-]{8}\.js$/))
  const { url, token } = await preview()
  const page = await context.newPage()
  const failed: string[] = []
  page.on('response', (response) => {
    if (response.status() >= 400 && !response.url().endsWith('/sw.js')) failed.push(response.url())
  })
  await page.goto(url)
  const port = new URL(url).port
  expect(page.url()).toBe(`http://${token}.preview.localhost:${port}/`)
  expect(await stateOf(page)).toEqual({ data: { lamps: 7 }, late: 'loaded late', path: '/', before: null, worker: 'TypeError' })
  expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(1, 2, 3)')
  expect(await page.evaluate('document.images[0].naturalWidth')).toBeGreaterThan(0)

  await page.getByRole('link').click()
  await page.waitForURL('**/deep/route')
  expect(await stateOf(page)).toMatchObject({ path: '/deep/route', before: `${token}.preview.localhost:${port}` })
  await page.reload()
  expect((await stateOf(page)).path).toBe('/deep/route')
  expect(failed).toEqual([])
})

test('E9: two previews share neither storage nor cookies, and no worker registers, which a live site may have', async () => {
  const [one, two] = [await preview(), await preview()]
  const page = await context.newPage()
  for (const { url } of [one, two]) {
    await page.goto(url)
    expect(await stateOf(page)).toMatchObject({ before: null, worker: 'TypeError' })
    expect(await page.evaluate('navigator.serviceWorker.getRegistrations().then((all) => all.length)')).toBe(0)
  }
  const cookies = await context.cookies()
  expect(cookies.map((cookie) => cookie.domain).sort()).toEqual(
    [one, two].map(({ token }) => `${token}.preview.localhost`).sort(),
  )

  await call(`POST /api/v1/deploys/${one.id}/activate`)
  const live = `http://${one.site.subdomain}.plinth.localhost:${new URL(one.url).port}/`
  await expect.poll(async () => (await w.open(live)).status).toBe(200)
  await page.goto(live)
  expect(await stateOf(page)).toMatchObject({ before: null, worker: 'registered' })
})

test('E9: nothing runs on the origin that all previews share, also not in a frame', async () => {
  const [outer, inner] = [await preview(), await preview()]
  const page = await context.newPage()
  await page.goto(outer.url)
  await stateOf(page)
  const shown = page.waitForResponse(inner.url)
  await page.evaluate(`document.body.append(Object.assign(document.createElement('iframe'), { src: '${inner.url}' }))`)
  expect((await (await shown).allHeaders())['content-security-policy']).toBe('sandbox')
  const frame = page.frameLocator('iframe')
  await frame.getByRole('heading').waitFor()
  expect(await frame.locator('#state').textContent()).toBe('no script has run')
})

test('E9: another site does not learn the address of the preview', async () => {
  const { url, token } = await preview()
  const seen: (string | undefined)[] = []
  const other = createServer((req, res) => {
    seen.push(req.headers.referer)
    res.end('other')
  }).listen(0, '127.0.0.1')
  await once(other, 'listening')
  const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`
  const page = await context.newPage()
  await page.goto(url)
  await stateOf(page)
  await page.evaluate(`fetch('${address}', { mode: 'no-cors' })`)
  await page.evaluate(`location.href = '${address}'`)
  await page.waitForURL(address)
  expect(seen.length).toBeGreaterThanOrEqual(2)
  expect(seen.filter((referer) => referer?.includes(token))).toEqual([])
  other.close()
})

test('P04 X02: what was revoked or published shows the page of a link that does not open, also after a reload', async () => {
  for (const end of ['DELETE /api/v1/deploys/:id/preview', 'POST /api/v1/deploys/:id/activate']) {
    const { id, url } = await preview()
    const page = await context.newPage()
    await page.goto(url)
    await stateOf(page)
    const ownOrigin = page.url()
    expect((await call(end.replace(':id', id))).status).toBe(200)
    await expect.poll(async () => (await w.open(url)).status).toBe(404)
    for (const again of [await page.reload(), await page.goto(url)]) {
      expect(again?.status()).toBe(404)
      expect(await page.title()).toBe('This preview link does not open')
    }
    // nothing was kept: not the files of the page either
    expect((await page.goto(new URL('/data.json', ownOrigin).href))?.status()).toBe(404)
  }
})
