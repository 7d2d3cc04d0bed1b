import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { randomName } from '../make.ts'
import { axeFindings, browserTest as test } from './chromium.ts'
import type { ClosedSite, ClosedSites } from './closed-sites.ts'
import { type OpenPage, visitClosedSites } from './visit-closed-sites.ts'

// Members register, are approved, consent and pay, and subscribers log in, in a real Chromium, through the Caddy of `npm start`.

let sites: ClosedSites
let open: OpenPage
visitClosedSites((opened) => {
  sites = opened.sites
  open = opened.open
})

/** Where screenshots are kept; nowhere by default. */
const shots = process.env['GATE_SHOTS']
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
  await site.call('PATCH /members-settings', { moderation: true, ask_name: true, name_label: 'Badge', consent_mode: 'checkbox' })
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
