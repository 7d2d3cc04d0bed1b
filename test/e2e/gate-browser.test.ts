import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest'
import { loadConfig } from '../../infra/config.ts'
import { apiOnSocket } from '../../infra/local/api-client.ts'
import { freePort } from '../../infra/local/ports.ts'
import { type Stack, startStack } from '../../infra/local/stack.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { randomName } from '../make.ts'
import { hasChromium, launchChromium, browserTest as test } from './chromium.ts'

// Closed sites in a real Chromium, through the Caddy of `npm start`, with codes that arrive at a real mail server.

const stack = new AsyncDisposableStack()
let platform: Stack
let port: number
let key: string
let mails: Awaited<ReturnType<typeof startMailServer>>
let browser: Browser
beforeAll(async () => {
  if (!hasChromium) return
  const dir = await mkdtemp(join(tmpdir(), 'plinth-gate-'))
  // the user of PostgreSQL has to pass through
  await chmod(dir, 0o711)
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  mails = stack.use(await startMailServer())
  port = await freePort()
  const { bwrap, toolchain } = inject('buildTools')
  const config = loadConfig({
    PLINTH_DATA_DIR: join(dir, 'data'),
    PLINTH_HTTP_PORT: String(port),
    PLINTH_HTTPS_PORT: String(await freePort()),
    PLINTH_SMTP_URL: mails.url,
    PLINTH_BUILD_BWRAP: bwrap,
    PLINTH_BUILD_TOOLCHAIN: toolchain,
    PLINTH_CACHE_DIR: loadConfig().cacheDir,
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
  })
  platform = stack.use(await startStack(config, { report: () => undefined, signal: new AbortController().signal }))
  const operator = platform.config.operatorToken ?? ''
  const owner = { name: 'p', owner_email: 'owner@example.com', plan: 'enterprise' }
  const { id } = await call('POST /operator/v1/projects', owner, operator)
  key = (await call(`POST /operator/v1/projects/${id}/keys`, { name: 'full', scope: 'full' }, operator)).key
  browser = await launchChromium()
  stack.defer(() => browser.close())
}, 300_000)
afterAll(() => stack.disposeAsync(), 60_000)

async function call(endpoint: string, body?: unknown, token = key): Promise<any> {
  const answer = await apiOnSocket(platform.config.sockets.api)(endpoint, token, body)
  if (answer.status !== 200) throw new Error(`${endpoint}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

const html = (content: string) => `<!doctype html><html lang="en"><title>Drafts</title><main>${content}</main></html>`
const signOut = '<form method="post" action="/__svc/logout"><button>Sign out</button></form>'

interface Site {
  readonly url: string
  /** Changes what closes the site. */
  access(endpoint: string, body?: unknown): Promise<any>
  /** Waits until the login page of the site has this text. */
  shows(text: string): Promise<void>
}

/** A published site. */
async function makeSite(): Promise<Site> {
  const site = await call('POST /api/v1/sites', { name: 'Drafts', subdomain: randomName() })
  const files = [
    { path: 'index.html', content: html('<h1>All drafts</h1>') },
    { path: 'spring/index.html', content: html(`<h1>The draft of spring</h1>${signOut}`) },
  ]
  await call(`POST /api/v1/sites/${site.id}/deploy-files`, { files, activate: true })
  const body = async () => {
    const headers = { host: new URL(site.url).host, accept: 'text/html' }
    const outgoing = request({ host: '127.0.0.1', port, path: '/', headers }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const chunks = await response.toArray()
    return Buffer.concat(chunks as Buffer[]).toString()
  }
  const shows = (text: string) => expect.poll(body, { timeout: 30_000 }).toContain(text)
  await shows('All drafts')
  return {
    url: site.url,
    shows,
    access(endpoint, json) {
      const [method = '', path = ''] = endpoint.split(' ')
      return call(`${method} /api/v1/sites/${site.id}/access${path}`, json)
    },
  }
}

async function makeClosedSite(password = 'kite-and-river'): Promise<Site> {
  const site = await makeSite()
  await site.access('PUT ', { password })
  await site.shows('type="password"')
  return site
}

async function makeEmailSite(...emails: string[]): Promise<Site> {
  const site = await makeSite()
  for (const email of emails) await site.access('POST /emails', { email })
  await site.access('POST /email-mode', {})
  await site.shows('type="email"')
  return site
}

/** What the policies of the pages have refused. */
const refused: string[] = []
afterEach(() => expect(refused).toEqual([]))

async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) refused.push(message.text())
  })
  await page.goto(url)
  return page
}

const heading = (page: Page, name: string) => page.getByRole('heading', { name }).waitFor()
const focused = (page: Page) => page.evaluate('document.activeElement?.name')

/** The code of the latest email to the address. */
async function codeFor(address: string): Promise<string> {
  const find = () => mails.received.findLast(({ envelope }) => envelope.to.includes(address))
  await expect.poll(find, { timeout: 30_000 }).toBeDefined()
  return /\b\d{6}\b/.exec(find()?.text ?? '')?.[0] ?? ''
}

test.for([true, false])('L02: the password leads back to the page that was asked for; scripts: %s', async (javaScriptEnabled) => {
  const site = await makeClosedSite()
  const page = await open(`${site.url}/spring/?size=large`, { javaScriptEnabled })
  await heading(page, 'This site is private')
  expect(await page.title()).toBe('Enter the password')
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('alert').getByText('The password is not right.').waitFor()
  expect(await page.title()).toBe('Error: The password is not right. Check it and try again.')
  await page.getByLabel('Password').fill('kite-and-river')
  await page.getByRole('button', { name: 'Continue' }).click()
  await heading(page, 'The draft of spring')
  expect(page.url()).toBe(`${site.url}/spring/?size=large`)
  await page.goto(site.url)
  await heading(page, 'All drafts')
  await page.close()
})

test('L02: a form of the site signs out', async () => {
  const site = await makeClosedSite()
  const page = await open(`${site.url}/spring/`)
  await page.getByLabel('Password').fill('kite-and-river')
  await page.keyboard.press('Enter')
  await heading(page, 'The draft of spring')
  expect(await page.context().cookies()).toMatchObject([{ name: 'svc_s', httpOnly: true, sameSite: 'Lax', path: '/' }])
  await page.getByRole('button', { name: 'Sign out' }).click()
  await heading(page, 'This site is private')
  expect(await page.context().cookies()).toEqual([])
  await page.goto(`${site.url}/spring/`)
  await heading(page, 'This site is private')
  await page.close()
})

test('L06: another password signs a visitor out', async () => {
  const site = await makeClosedSite()
  const page = await open(site.url)
  await page.getByLabel('Password').fill('kite-and-river')
  await page.keyboard.press('Enter')
  await heading(page, 'All drafts')
  await site.access('PUT ', { password: 'another-one' })
  await expect.poll(async () => (await page.reload())?.status()).toBe(401)
  await page.close()
})

test('E02: the emailed code lets a listed visitor in, with the keyboard alone', async () => {
  const site = await makeEmailSite('ada@example.com')
  const page = await open(`${site.url}/spring/`)
  await heading(page, 'This site is private')
  expect(await focused(page)).toBe('email')
  await page.keyboard.type('Ada@example.com')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await heading(page, 'Check your email')
  await page.getByText('If ada@example.com may visit the site, a code is on its way.').waitFor()
  expect(await focused(page)).toBe('code')
  const code = await codeFor('ada@example.com')
  await page.keyboard.type(code === '000000' ? '000001' : '000000')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('The code is not right.').waitFor()
  expect(await focused(page)).toBe('code')
  await page.keyboard.type(`${code.slice(0, 3)} ${code.slice(3)}`)
  await page.keyboard.press('Enter')
  await heading(page, 'The draft of spring')
  expect(page.url()).toBe(`${site.url}/spring/`)
  await page.close()
})

test('E02: the page after the address is the same for an address that is not listed, and no email is sent to it', async () => {
  const site = await makeEmailSite('grace@example.com')
  const shown: string[] = []
  for (const address of ['mallory@example.com', 'grace@example.com']) {
    const page = await open(site.url)
    await page.getByLabel('Email address').fill(address)
    await page.keyboard.press('Enter')
    await heading(page, 'Check your email')
    shown.push((await page.locator('main').innerText()).replaceAll(address, ''))
    await page.close()
  }
  expect(shown[0]).toBe(shown[1])
  // the later email has arrived
  await codeFor('grace@example.com')
  expect(mails.received.filter(({ envelope }) => envelope.to.includes('mallory@example.com'))).toEqual([])
})

test('E02: a visitor may correct the address, and has to wait before the next code', async () => {
  const site = await makeEmailSite()
  const page = await open(`${site.url}/spring/`)
  await page.getByLabel('Email address').fill('typo@example.com')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Send a new code' }).click()
  await page.getByRole('alert').getByText('This is too soon.').waitFor()
  await page.getByRole('link', { name: 'Use another address' }).click()
  await page.getByLabel('Email address').waitFor()
  expect(page.url()).toBe(`${site.url}/spring/`)
  await page.close()
})

/** Where screenshots are kept; nowhere by default. */
const shots = process.env['GATE_SHOTS']

const looks = [390, 1280].flatMap((width) =>
  (['light', 'dark'] as const).map((colorScheme, i) => ({ width, colorScheme, locale: i === 0 ? 'en' : 'ru' })),
)
test.for(looks)('L09: axe finds nothing on any login page: %o', async ({ width, ...look }) => {
  const site = await makeClosedSite()
  // the pages allow no script, and axe is one
  const page = await open(site.url, { viewport: { width, height: 800 }, bypassCSP: true, ...look })
  const check = async (state: string) => {
    await page.locator('h1').waitFor()
    if (shots !== undefined) await page.screenshot({ path: join(shots, `real-${state}-${width}-${look.colorScheme}.png`) })
    expect(await page.locator('html').getAttribute('lang')).toBe(look.locale)
    await page.evaluate(axe.source)
    const { violations } = (await page.evaluate('axe.run()')) as axe.AxeResults
    expect(violations.map(({ id, nodes }) => [state, id, nodes.map(({ html }) => html)])).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  }
  const answer = async (text: string) => {
    await page.locator('#field').fill(text)
    await page.keyboard.press('Enter')
    await page.waitForLoadState()
  }
  await check('password')
  await answer('wrong')
  await check('wrong-password')
  const logo = await sharp({ create: { width: 900, height: 300, channels: 3, background: '#1f6f5c' } })
    .png()
    .toBuffer()
  const brand = { title: 'Studio North', description: 'Drafts for our clients.\nЧерновики для клиентов.', logo_rounded: true }
  await site.access('PATCH /brand', { ...brand, logo_base64: logo.toString('base64'), favicon_base64: logo.toString('base64') })
  await site.shows('logo.webp')
  await page.goto(site.url)
  await page.locator('h1', { hasText: 'Studio North' }).waitFor()
  expect(await page.evaluate("document.querySelector('.logo').naturalWidth")).toBe(512)
  await check('brand')
  await site.access('POST /email-mode', {})
  await site.shows('type="email"')
  await page.goto(site.url)
  await check('email')
  await answer(`somebody-${width}@example.com`)
  await page.locator('[autocomplete="one-time-code"]').waitFor()
  await check('code')
  await answer('000000')
  await page.locator('[role="alert"]').waitFor()
  await check('wrong-code')
  await site.access('PATCH /expiry', { until: new Date(Date.now() + 1000).toISOString() })
  await site.shows('Access has ended')
  await page.goto(site.url)
  await check('ended')
  await page.close()
})
