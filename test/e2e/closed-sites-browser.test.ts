import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import { describe, expect } from 'vitest'
import { randomName } from '../make.ts'
import { axeFindings, browserTest as test } from './chromium.ts'
import { type ClosedSite, type ClosedSites, html } from './closed-sites.ts'
import { type OpenPage, visitClosedSites } from './visit-closed-sites.ts'

// Closed sites in a real Chromium, through the Caddy of `npm start`, with codes that arrive at a real mail server.

/** Where screenshots are kept; nowhere by default. */
const shots = process.env['GATE_SHOTS']

let sites: ClosedSites
let open: OpenPage
visitClosedSites((opened) => {
  sites = opened.sites
  open = opened.open
})

describe('the gate', () => {
  const heading = (page: Page, name: string) => page.getByRole('heading', { name }).waitFor()
  const focused = (page: Page) => page.evaluate('document.activeElement?.name')

  test.for([true, false])(
    'L02: the password leads back to the page that was asked for; scripts: %s',
    async (javaScriptEnabled) => {
      const site = await sites.closed()
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
    },
  )

  test('L02: a form of the site signs out', async () => {
    const site = await sites.closed()
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
    const site = await sites.closed()
    const page = await open(site.url)
    await page.getByLabel('Password').fill('kite-and-river')
    await page.keyboard.press('Enter')
    await heading(page, 'All drafts')
    await site.access('PUT ', { password: 'another-one' })
    await expect.poll(async () => (await page.reload())?.status()).toBe(401)
    await page.close()
  })

  /** A page that links to the permanent link of its first deploy, after a second one has replaced it. */
  async function withPermanentLinks(site: ClosedSite) {
    await site.call('PATCH ', { permanent_links: true })
    const replaced: { permanent_url: string }[] = await site.call('GET /deploys')
    const [first] = replaced.map(({ permanent_url }) => permanent_url)
    await site.call('POST /deploy-files', {
      files: [{ path: 'index.html', content: html(`<h1>The new drafts</h1><a href="${first}spring/">As it was</a>`) }],
      activate: true,
    })
    await expect.poll(async () => (await site.call('GET /deploys'))[0].status).toBe('active')
    return first ?? ''
  }

  test('E34: a permanent link leads through the login of the site to the old deploy, until the visitor is removed', async () => {
    const email = `${randomName('reader')}@example.com`
    const site = await sites.emailed(email)
    const link = await withPermanentLinks(site)
    const page = await open(`${link}spring/`)
    await heading(page, 'This site is private')
    expect(new URL(page.url()).origin).toBe(site.url)
    await page.getByLabel('Email address').fill(email)
    await page.keyboard.press('Enter')
    await page.getByLabel('Code from the email').fill(await sites.codeFor(email))
    await page.keyboard.press('Enter')
    await heading(page, 'The draft of spring')
    expect(page.url()).toBe(`${link}spring/`)

    // another browser gets nothing from the address with the ticket
    const replayed: string[] = []
    page.on('request', (request) => {
      if (request.url().includes('?ticket=')) replayed.push(request.url())
    })
    await page.context().clearCookies({ domain: new URL(link).hostname })
    await page.goto(site.url)
    await page.getByRole('link', { name: 'As it was' }).click()
    await heading(page, 'The draft of spring')
    expect(replayed).toHaveLength(1)
    const thief = await open(replayed[0] ?? '')
    await heading(thief, 'Not let in yet')
    await thief.getByRole('link', { name: 'Open the page again' }).click()
    await heading(thief, 'This site is private')
    await thief.close()

    const [listed] = (await site.access('GET /emails')).items
    await site.access(`DELETE /emails/${listed.id}`)
    await expect.poll(async () => (await page.goto(`${link}spring/`))?.status(), { timeout: 5000 }).toBe(401)
    await heading(page, 'This site is private')
    await page.close()
  })

  test('E02: the emailed code lets a listed visitor in, with the keyboard alone', async () => {
    const site = await sites.emailed('ada@example.com')
    const page = await open(`${site.url}/spring/`)
    await heading(page, 'This site is private')
    expect(await focused(page)).toBe('email')
    await page.keyboard.type('Ada@example.com')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await heading(page, 'Check your email')
    await page.getByText('If ada@example.com may visit the site, a code is on its way.').waitFor()
    expect(await focused(page)).toBe('code')
    const code = await sites.codeFor('ada@example.com')
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
    const site = await sites.emailed('grace@example.com')
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
    await sites.codeFor('grace@example.com')
    expect(sites.mails.received.filter(({ envelope }) => envelope.to.includes('mallory@example.com'))).toEqual([])
  })

  test('E02: a visitor may ask for another code, and correct the address', async () => {
    const site = await sites.emailed()
    const page = await open(`${site.url}/spring/`)
    await page.getByLabel('Email address').fill('typo@example.com')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Send a new code' }).click()
    await page.waitForLoadState()
    // no answer shows whether the address is known
    expect(await page.getByRole('alert').count()).toBe(0)
    await page.getByRole('link', { name: 'Use another address' }).click()
    await page.getByLabel('Email address').waitFor()
    expect(page.url()).toBe(`${site.url}/spring/`)
    await page.close()
  })

  // The same over https, with certificates of Caddy's own authority.

  async function openOverHttps(): Promise<{ readonly page: Page; readonly url: string; readonly httpUrl: string }> {
    const { url: httpUrl, httpsUrl: url } = await sites.closed()
    return { page: await open(`${url}/spring/`), url, httpUrl }
  }

  async function logIn(page: Page): Promise<void> {
    await page.getByLabel('Password').fill('kite-and-river')
    await page.keyboard.press('Enter')
  }

  test('L02: over https the login sets one cookie, which is of this host only, and no script and no other host gets it', async () => {
    const { page, url } = await openOverHttps()
    const answered = page.waitForResponse((response) => response.request().method() === 'POST')
    await logIn(page)
    await heading(page, 'The draft of spring')
    expect(page.url()).toBe(`${url}/spring/`)
    const set = (await (await answered).headersArray()).filter(({ name }) => name.toLowerCase() === 'set-cookie')
    expect(set.map(({ value }) => value.replace(/=[\w-]{59};/, '=…;').replace(/\d{7}/, '…'))).toEqual([
      '__Host-svc_s=…; Path=/; Max-Age=…; HttpOnly; SameSite=Lax; Secure',
    ])
    const { hostname: domain } = new URL(url)
    // browsers write the domain of a cookie that subdomains get, too, with a dot in front
    const kept = { name: '__Host-svc_s', domain, path: '/', httpOnly: true, secure: true, sameSite: 'Lax' }
    expect(await page.context().cookies()).toMatchObject([kept])
    expect(await page.evaluate('[location.protocol, document.cookie]')).toEqual(['https:', ''])
    const other = await sites.closed()
    const asked = page.waitForRequest(`${other.httpsUrl}/`)
    await page.goto(other.httpsUrl)
    await heading(page, 'This site is private')
    expect(await (await asked).headerValue('cookie')).toBeNull()
    await page.close()
  })

  test('L02: over https a page of another site can link to a closed site, but not embed it with the login', async () => {
    const { page, url } = await openOverHttps()
    await logIn(page)
    await heading(page, 'The draft of spring')
    const body = html(`<a href="${url}/spring/">Draft</a><img src="${url}/spring/" alt="">`)
    const elsewhere = createServer((_req, res) => res.setHeader('content-type', 'text/html').end(body)).listen(0, '127.0.0.1')
    await once(elsewhere, 'listening')
    const cookieOf = async () => (await page.waitForRequest(`${url}/spring/`)).headerValue('cookie')
    const embedded = cookieOf()
    await page.goto(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`)
    expect(await embedded).toBeNull()
    const linked = cookieOf()
    await page.getByRole('link', { name: 'Draft' }).click()
    expect(await linked).toMatch(/^__Host-svc_s=/)
    await heading(page, 'The draft of spring')
    await page.close()
    elsewhere.closeAllConnections()
    elsewhere.close()
  })

  test.for(['the form of the site', 'the page for signing out'])('L02: over https a visitor signs out with %s', async (way) => {
    const { page, url } = await openOverHttps()
    await logIn(page)
    await heading(page, 'The draft of spring')
    if (way === 'the page for signing out') await page.goto(`${url}/__svc/logout`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await heading(page, 'This site is private')
    expect(await page.context().cookies()).toEqual([])
    await page.goto(`${url}/spring/`)
    await heading(page, 'This site is private')
    await page.close()
  })

  test('L02: a login over http does not count over https, although the browser sends its cookie there', async () => {
    const { url, httpsUrl } = await sites.closed()
    const page = await open(`${url}/spring/`)
    await logIn(page)
    await heading(page, 'The draft of spring')
    const asked = page.waitForRequest(`${httpsUrl}/spring/`)
    await page.goto(`${httpsUrl}/spring/`)
    await heading(page, 'This site is private')
    expect(await (await asked).headerValue('cookie')).toMatch(/^svc_s=[\w-]{59}$/)
    // nor does a cookie of the plain name that is marked as secure
    const [cookie] = await page.context().cookies()
    await page.context().clearCookies()
    await page.context().addCookies([{ name: 'svc_s', value: cookie?.value ?? '', url: httpsUrl, secure: true }])
    await page.goto(`${httpsUrl}/spring/`)
    await heading(page, 'This site is private')
    await page.close()
  })

  test('E02: over https the emailed code lets a listed visitor in', async () => {
    const { httpsUrl } = await sites.emailed('hedy@example.com')
    const page = await open(`${httpsUrl}/spring/`)
    await page.getByLabel('Email address').fill('hedy@example.com')
    await page.keyboard.press('Enter')
    await heading(page, 'Check your email')
    await page.keyboard.type(await sites.codeFor('hedy@example.com'))
    await page.keyboard.press('Enter')
    await heading(page, 'The draft of spring')
    expect(await page.context().cookies()).toMatchObject([
      { name: '__Host-svc_s', secure: true, httpOnly: true, sameSite: 'Lax' },
    ])
    await page.close()
  })

  test('the certificate of a site is one of the local authority, and names its host', async () => {
    const { httpsUrl } = await sites.closed()
    expect(await sites.verifiedStatus(httpsUrl)).toBe(401)
  })

  const looks = [390, 1280].flatMap((width) =>
    (['light', 'dark'] as const).map((colorScheme, i) => ({ width, colorScheme, locale: i === 0 ? 'en' : 'ru' })),
  )
  test.for(looks)('L09: axe finds nothing on any login page: %o', async ({ width, ...look }) => {
    const site = await sites.closed()
    // the pages allow no script, and axe is one
    const page = await open(site.url, { viewport: { width, height: 800 }, bypassCSP: true, ...look })
    const check = async (state: string) => {
      await page.locator('h1').waitFor()
      if (shots !== undefined) await page.screenshot({ path: join(shots, `real-${state}-${width}-${look.colorScheme}.png`) })
      expect(await page.locator('html').getAttribute('lang')).toBe(look.locale)
      expect([state, await axeFindings(page)]).toEqual([state, []])
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
})

// they register, are approved, consent and pay, and subscribers log in
describe('members', () => {
  let shot = 0

  /** Waits for a page with this heading, in which axe finds nothing. */
  async function arrive(page: Page, name: string): Promise<void> {
    await page.getByRole('heading', { name, exact: true }).waitFor({ timeout: 60_000 })
    if (shots !== undefined) await page.screenshot({ path: join(shots, `flow-${++shot}.png`), fullPage: true })
    // nothing but axe is evaluated, so the policy of the page stays in force for the page itself
    expect([name, await axeFindings(page)]).toEqual([name, []])
  }

  const newEmail = () => `${randomName('ada')}@example.com`

  /** @returns the code */
  async function enterCode(page: Page, email: string): Promise<string> {
    await page.getByLabel('Email address').fill(email)
    await page.getByRole('button', { name: 'Send the code' }).click()
    await arrive(page, 'Check your email')
    const code = await sites.codeFor(email)
    await page.getByLabel('Code from the email').fill(code)
    await page.getByRole('button', { name: 'Continue' }).click()
    return code
  }

  const memberOf = async (site: ClosedSite, email: string) =>
    (await site.call('GET /members')).items.find((member: { email: string }) => member.email === email)

  const documents = [{ title: 'Terms of use', url: 'https://example.com/terms' }]
  const isInside = (page: Page, site: ClosedSite) => expect.poll(() => page.url()).toBe(`${site.url}/spring/`)

  test('M03 M05 M07: a visitor registers, is approved, consents to new documents and is blocked', {
    timeout: 240_000,
  }, async () => {
    const site = await sites.published()
    await site.call('PUT /documents', { documents })
    await site.call('PATCH /members-settings', {
      moderation: true,
      ask_name: true,
      name_label: 'Badge',
      consent_mode: 'checkbox',
    })
    await site.access('POST /members-mode', {})
    await site.shows('Terms of use')
    const email = newEmail()
    const page = await open(`${site.url}/spring/`)
    await arrive(page, 'This site is for members')
    const terms = page.getByRole('link', { name: 'Terms of use (opens in a new tab)' })
    expect(await terms.getAttribute('href')).toBe('https://example.com/terms')
    const code = await enterCode(page, email)

    await arrive(page, 'Register')
    await page.getByLabel('Badge').fill('Ada')
    await page.getByRole('button', { name: 'Register' }).click()
    // the browser keeps the form until the box is ticked
    await page.getByRole('checkbox', { name: 'I agree to Terms of use' }).check()
    await page.getByRole('button', { name: 'Register' }).click()
    await arrive(page, 'Waiting for approval')
    const member = await memberOf(site, email)
    expect(member).toMatchObject({ email, name: 'Ada', status: 'pending' })

    await site.call(`POST /members/${member.id}/moderate`, { action: 'approve' })
    await page.reload()
    await isInside(page, site)
    await arrive(page, 'The draft of spring')

    await site.call('PUT /documents', { documents: [{ title: 'New terms', url: 'https://example.com/new' }] })
    await site.call('POST /members/reconsent')
    await expect.poll(async () => (await page.reload())?.status()).toBe(401)
    await arrive(page, 'Please agree once more')
    await page.getByRole('checkbox', { name: 'I agree to New terms' }).check()
    await page.getByRole('button', { name: 'Agree and continue' }).click()
    await isInside(page, site)
    await arrive(page, 'The draft of spring')

    // another browser logs in with a code alone, once the address may have a new one
    await sites.forgetRates()
    const other = await open(`${site.url}/spring/`)
    await other.getByLabel('Email address').fill(email)
    await other.getByRole('button', { name: 'Send the code' }).click()
    await arrive(other, 'Check your email')
    await expect.poll(() => sites.codeFor(email)).not.toBe(code)
    await other.getByLabel('Code from the email').fill(await sites.codeFor(email))
    await other.getByRole('button', { name: 'Continue' }).click()
    await arrive(other, 'The draft of spring')

    await site.call(`POST /members/${member.id}/moderate`, { action: 'block' })
    for (const one of [page, other]) {
      await expect.poll(async () => (await one.reload())?.status()).toBe(401)
      await arrive(one, 'This site is for members')
      await one.close()
    }
  })

  test.for(['http', 'https'] as const)(
    'M10: over %s a visitor declines a payment, pays the next one, and gets to the page that was asked for',
    {
      timeout: 240_000,
    },
    async (scheme) => {
      const site = await sites.published()
      const url = scheme === 'http' ? site.url : site.httpsUrl
      await site.access('POST /paid-mode', { amount_minor: 99_000, currency: 'RUB', period_days: 30, provider: 'test' })
      await site.call('PATCH /members-settings', { moderation: false })
      await site.shows('RUB')
      const email = newEmail()
      const page = await open(`${url}/spring/`, { viewport: { width: 390, height: 800 } })
      await arrive(page, 'This site is for paying members')
      await page.getByText('Access costs RUB 990 for 30 days.').waitFor()
      await enterCode(page, email)
      await arrive(page, 'Pay for access')
      await page.getByRole('button', { name: 'Pay RUB 990' }).click()
      await arrive(page, 'Test payment')
      await page.getByRole('button', { name: 'Decline' }).click()
      await arrive(page, 'The payment was not completed')
      expect((await memberOf(site, email))?.payment ?? null).toBeNull()

      await page.getByRole('button', { name: 'Try again' }).click()
      await arrive(page, 'Test payment')
      await page.getByRole('button', { name: 'Pay' }).click()
      await arrive(page, 'The draft of spring')
      expect(page.url()).toBe(`${url}/spring/`)
      expect(await memberOf(site, email)).toMatchObject({
        status: 'active',
        payment: { amount: 99_000, currency: 'RUB', provider: 'test' },
      })
      // the proof of the address has done its work
      expect((await page.context().cookies()).map(({ name }) => name)).toEqual([scheme === 'http' ? 'svc_s' : '__Host-svc_s'])
      await page.close()
    },
  )

  /** The payload of a link that opens the bot. */
  const payloadIn = (link: string | null) => /\?start=([\w-]+)/.exec(link ?? '')?.[1] ?? ''

  /** A channel that its owner has connected, as the messenger sees it, with its id here. */
  async function connectedChannel() {
    const { telegram, base } = sites
    await expect.poll(() => telegram.webhook).toBeDefined()
    const channel = telegram.channel()
    const owner = 7001
    channel.roles.set(owner, 'owner')
    const { link } = await sites.call('POST /messenger-channels', { provider: 'telegram' })
    await telegram.says(base, owner, `/start ${payloadIn(link)}`)
    await telegram.forwards(base, owner, channel)
    const listed: { id: string; title: string }[] = await sites.call('GET /messenger-channels')
    return { channel, id: listed.find(({ title }) => title === channel.title)?.id }
  }

  test('M02: a subscriber gets a code from the bot and is let in, a stranger sees why not', { timeout: 120_000 }, async () => {
    const { telegram, base } = sites
    const { channel, id } = await connectedChannel()
    const site = await sites.published()
    await site.access('POST /subscribers-mode', { channel_ids: [id] })
    await site.shows(channel.title)
    const [subscriber, stranger] = [7002, 7003]
    channel.roles.set(subscriber, 'member')
    for (const [person, end] of [
      [subscriber, 'The draft of spring'],
      [stranger, 'You are not a subscriber yet'],
    ] as const) {
      const page = await open(`${site.url}/spring/`, { viewport: { width: 390, height: 800 } })
      await arrive(page, 'This site is for subscribers')
      await page.getByText(channel.title).waitFor()
      await page.getByRole('button', { name: 'Log in with Telegram' }).click()
      await arrive(page, 'Get a code in Telegram')
      const link = await page.getByRole('link', { name: 'Open Telegram (opens in a new tab)' }).getAttribute('href')
      await telegram.says(base, person, `/start ${payloadIn(link)}`)
      const said = telegram.sent.filter(({ to }) => to === person).at(-1)?.text ?? ''
      await page.getByLabel('Code from the bot').fill(/\b\d{6}\b/.exec(said)?.[0] ?? '')
      await page.getByRole('button', { name: 'Continue' }).click()
      await arrive(page, end)
      if (person === subscriber) await isInside(page, site)
      else expect(await page.context().cookies()).toEqual([])
      await page.close()
    }
  })
})
