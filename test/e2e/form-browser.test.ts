import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { formHtml } from '../../core/form-html.ts'
import { freePort } from '../../infra/local/ports.ts'
import { type FormSite, makeFormSite } from '../api/form-site.ts'
import { deployFiles } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { axeFindings, hasChromium, launchChromium, browserTest as test } from './chromium.ts'

// Forms of a site in a real Chromium, which sends what browsers send: with and without scripts, and with a script of the page.

let w: World
let owner: TestProject
let browser: Browser
let site: FormSite
let siteUrl: string
const cleanup = new AsyncDisposableStack()
beforeAll(async () => {
  if (!hasChromium) return
  const edgePort = await freePort()
  w = cleanup.use(await world({ edge: true, edgePort, env: { PLINTH_HTTP_PORT: String(edgePort) } }))
  owner = await w.project('enterprise')
  browser = await launchChromium()
  cleanup.defer(() => browser.close())
}, 180_000)
afterAll(() => cleanup.disposeAsync())

beforeEach(async () => {
  if (!hasChromium) return
  // all posts come from one address, which has a rate
  w.advance(60_001)
  site = await makeFormSite(w, owner)
  siteUrl = site.url
  const endpoint = `${w.base}/f/${site.id}`
  const pasted = formHtml(endpoint, site.id)
  const page = (content: string) =>
    `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Contact</title><main><h1>Contact</h1>${content}</main></html>`
  await deployFiles(w, owner, site.id, [
    { path: 'index.html', content: page(pasted) },
    {
      path: 'with-next.html',
      content: page(pasted.replace('</form>', '<input type="hidden" name="_next" value="/sent"></form>')),
    },
    { path: 'multipart.html', content: page(pasted.replace('<form ', '<form enctype="multipart/form-data" ')) },
    { path: 'no-referrer.html', content: page(`<meta name="referrer" content="no-referrer">${pasted}`) },
    { path: 'sent.html', content: page('<p>Sent.</p>') },
  ])
  await isServed(site)
})

const isServed = ({ subdomain }: FormSite) => expect.poll(async () => (await w.visit(subdomain)).status).toBe(200)

/** Opens a page of the site in a context of its own, fills the form in as a person does, and sends it. */
async function send(path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  await page.goto(`${siteUrl}${path}`)
  await page.getByLabel('Name').fill('Ада "Löv"')
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByLabel('Message').fill('One line\nand <b>another</b> =1')
  // nobody is that fast
  w.advance(5000)
  await page.getByRole('button', { name: 'Send' }).click()
  return page
}

const stored = async () =>
  await w.db.selectFrom('form_submissions').select(['status', 'data']).where('site_id', '=', site.id).orderBy('id').execute()
const sent = {
  status: 'verified',
  data: { name: 'Ада "Löv"', email: 'ada@example.com', message: 'One line\r\nand <b>another</b> =1' },
}

test.for([
  ['/', true],
  ['/', false],
  ['/multipart', true],
  ['/multipart', false],
] as const)('the form as it is pasted, at %s, with scripts: %s', async ([path, javaScriptEnabled]) => {
  const page = await send(path, { javaScriptEnabled })
  await page.getByRole('heading', { name: 'Thank you, your message has been sent' }).waitFor()
  expect(await stored()).toEqual([sent])
  await page.getByRole('link', { name: 'Back to the site' }).click()
  await page.waitForURL(`${siteUrl}/`)
})

test('E35: the browser is sent to the page of the site that the form names', async () => {
  const page = await send('/with-next')
  await page.waitForURL(`${siteUrl}/sent`)
  expect(await stored()).toEqual([sent])
})

test('a page that hides its origin says that the message was not sent', async () => {
  const page = await send('/no-referrer')
  await page.getByRole('heading', { name: 'The message was not sent' }).waitFor()
  expect(await stored()).toEqual([])
})

test('E15: a script of the page sends JSON and reads the answer, and one of another site is refused', async () => {
  const context = await browser.newContext()
  const page = await context.newPage()
  const fetched = (body: string) => `
    fetch('${w.base}/f/${site.id}', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '${body}' })
      .then(async (response) => [response.status, await response.json()], (error) => String(error))`
  await page.goto(siteUrl)
  expect(await page.evaluate(fetched('{"a":1}'))).toEqual([200, { ok: true }])
  expect(await page.evaluate(fetched('{'))).toEqual([400, { message: expect.any(String), reason: 'invalid_body' }])
  const other = await makeFormSite(w, owner)
  await deployFiles(w, owner, other.id, [{ path: 'index.html', content: '<!doctype html><title>x</title>' }])
  await isServed(other)
  await page.goto(other.url)
  expect(await page.evaluate(fetched('{"a":2}'))).toContain('TypeError')
  expect((await stored()).map(({ data }) => data)).toEqual([{ a: 1 }])
})

const looks = [390, 1280].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((colorScheme) => ['en', 'ru'].map((locale) => ({ width, colorScheme, locale }))),
)
test.for(looks)('axe finds nothing on the pages after a post: %o', async ({ width, ...look }) => {
  const seen = [await send('/', { ...options(width), ...look }), await send('/no-referrer', { ...options(width), ...look })]
  for (const page of seen) {
    await page.locator('main').waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(look.locale)
    expect(await axeFindings(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  }
})
/** The pages allow no script, and axe is one. */
const options = (width: number) => ({ viewport: { width, height: 800 }, bypassCSP: true })
