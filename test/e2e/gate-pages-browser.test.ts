import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { pageLanguages } from '../../core/page-language.ts'
import { type GateBrand, gatePage } from '../../infra/gate/page.ts'
import type { GateState } from '../../infra/gate/state.ts'
import type { GateTerms } from '../../infra/gate/terms.ts'
import { axeFindings, hasChromium, launchChromium, browserTest as test, watchPolicies } from './chromium.ts'

// Every state of the login page in a real Chromium, without the servers that lead there.

const email = 'augusta.ada.king.countess.of.lovelace@analytical-engines.example.com'
const challenge = '01a2b3c4-d5e6-7f80-9123-456789abcdef'
const states: Readonly<Record<string, GateState>> = {
  members: { kind: 'members' },
  paid: { kind: 'paid' },
  code: { kind: 'code', email, challenge },
  register: { kind: 'register', email, name: '' },
  'register-without-name': { kind: 'register', email, name: '', error: 'wrong' },
  'register-without-consent': { kind: 'register', email, name: 'Ada', error: 'wrong' },
  consent: { kind: 'consent' },
  'consent-missing': { kind: 'consent', error: 'wrong' },
  pending: { kind: 'pending' },
  rejected: { kind: 'rejected' },
  blocked: { kind: 'blocked' },
  seats: { kind: 'seats' },
  pay: { kind: 'pay', email },
  'pay-wait': { kind: 'pay', email, error: 'wait' },
  pay_owner: { kind: 'pay_owner', email },
  'paying-begun': { kind: 'paying', url: 'https://pay.example.com/' },
  'paying-waiting': { kind: 'paying', url: null },
  unpaid: { kind: 'unpaid' },
  subscribers: { kind: 'subscribers' },
  messenger: { kind: 'messenger', provider: 'telegram', url: 'https://t.me/a_bot?start=abc', challenge },
  'messenger-wrong': { kind: 'messenger', provider: 'max', url: 'https://max.ru/a_bot?start=abc', challenge, error: 'wrong' },
  stranger: { kind: 'stranger' },
  away: { kind: 'away' },
  ended: { kind: 'ended' },
  logout: { kind: 'logout' },
}
const terms: GateTerms = {
  ask_name: true,
  name_label: null,
  consent_mode: 'checkbox',
  form_style: 'card',
  documents: [
    { id: 'terms', title: 'Terms of use', url: 'https://example.com/terms' },
    {
      id: 'privacy',
      title: 'Политика обработки персональных данных общества любителей воздушных змеев',
      url: 'https://example.com/privacy',
    },
    { id: 'hello', title: 'שלום', url: 'https://example.com/hello' },
  ],
  price: { amount_minor: 129_050, currency: 'RUB', period_days: 31 },
  channels: [
    { provider: 'telegram', title: 'Kites of the North', url: 'https://t.me/kites' },
    { provider: 'max', title: 'Воздушные змеи', url: null },
  ],
}
const brand: GateBrand = {
  title: 'Studio North',
  description: 'Drafts for our clients.\nЧерновики для клиентов.',
  logo_sha256: null,
  logo_framed: false,
  logo_rounded: false,
  favicon_mode: 'none',
  favicon_sha256: null,
}

/** How the owner has set the pages up. */
const kinds = {
  card: { brand: null, terms },
  plain: { brand, terms: { ...terms, consent_mode: 'notice', form_style: 'plain' } },
} as const

const stack = new AsyncDisposableStack()
let browser: Browser
let base: string
beforeAll(async () => {
  if (!hasChromium) return
  const server = createServer((req, res) => {
    const [, name = '', kind = '', lang = ''] = (req.url ?? '').split('/')
    const state = states[name]
    const shown = kinds[kind as keyof typeof kinds]
    const language = pageLanguages.find((one) => one === lang)
    if (!state || !shown || !language) {
      res.writeHead(404).end()
      return
    }
    const page = gatePage({ lang: language, state, ...shown, isOpenToAll: true, to: '/a' })
    const refresh = page.headers.indexOf('Refresh')
    // the page stays while it is looked at
    res.writeHead(page.status, refresh === -1 ? [...page.headers] : page.headers.toSpliced(refresh, 2)).end(page.body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  browser = await launchChromium()
  stack.defer(() => browser.close())
}, 60_000)
afterAll(() => stack.disposeAsync())

async function open(options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext(options)
  return await context.newPage()
}

/** Where screenshots are kept; nowhere by default. */
const shots = process.env.GATE_SHOTS

const looks = [
  { width: 390, lang: 'en', kind: 'card', colorScheme: 'light' },
  { width: 390, lang: 'ru', kind: 'plain', colorScheme: 'dark' },
  { width: 1280, lang: 'en', kind: 'plain', colorScheme: 'dark' },
  { width: 1280, lang: 'ru', kind: 'card', colorScheme: 'light' },
] as const
test.for(looks)('M02 M03 M10: axe finds nothing on any page, and none is too wide: %o', { timeout: 120_000 }, async (look) => {
  const { width, lang, kind, colorScheme } = look
  // the pages allow no script, and axe is one
  const page = await open({ viewport: { width, height: 800 }, bypassCSP: true, colorScheme })
  for (const name of Object.keys(states)) {
    await page.goto(`${base}/${name}/${kind}/${lang}`)
    if (shots !== undefined) await page.screenshot({ path: join(shots, `${name}-${kind}-${lang}-${width}.png`), fullPage: true })
    expect([name, await axeFindings(page)]).toEqual([name, []])
    expect([name, await page.evaluate('document.documentElement.scrollWidth <= innerWidth')]).toEqual([name, true])
  }
  await page.context().close()
})

test('L02: the policy of the pages refuses nothing that they need', async () => {
  const page = await open({})
  const refused: string[] = []
  watchPolicies(page, refused)
  for (const name of Object.keys(states)) {
    await page.goto(`${base}/${name}/card/en`)
    expect(await page.evaluate("getComputedStyle(document.querySelector('.card')).padding")).toBe('32px')
  }
  expect(refused).toEqual([])
  await page.context().close()
})
