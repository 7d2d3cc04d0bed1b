import { parseDocument } from 'htmlparser2'
import { expect, test } from 'vitest'
import { pageLanguages } from '../../core/page-language.ts'
import { type GateBrand, gatePage } from '../../infra/gate/page.ts'
import type { GateError, GateState } from '../../infra/gate/state.ts'
import type { GateTerms } from '../../infra/gate/terms.ts'
import { noTerms } from '../../services/feeds/locks.ts'

const errors: readonly GateError[] = ['wrong', 'wait', 'full', 'expired', 'origin']
const email = 'ada@example.com'
const code = { kind: 'code', email, challenge: 'c0ffee' } as const
const messenger = { kind: 'messenger', provider: 'telegram', url: 'https://t.me/a_bot?start=abc', challenge: 'c0ffee' } as const
const asked: readonly Extract<GateState, { readonly error?: GateError }>[] = [
  { kind: 'password' },
  { kind: 'email' },
  { kind: 'members' },
  { kind: 'paid' },
  code,
  { kind: 'register', email, name: 'Ada' },
  { kind: 'consent' },
  { kind: 'pay', email },
  { kind: 'subscribers' },
  messenger,
]
const told: readonly GateState[] = [
  { kind: 'pending' },
  { kind: 'rejected' },
  { kind: 'blocked' },
  { kind: 'seats' },
  { kind: 'pay_owner', email },
  { kind: 'paying', url: 'https://pay.example/1' },
  { kind: 'unpaid' },
  { kind: 'stranger' },
  { kind: 'away' },
  { kind: 'ended' },
  { kind: 'logout' },
]
const states: readonly GateState[] = [
  ...asked,
  ...asked.flatMap((state) => errors.map((error) => ({ ...state, error }))),
  ...told,
]
const brand: GateBrand = {
  title: 'Ada’s studio',
  description: 'For clients.\nAsk us for the password.',
  logo_sha256: 'ab'.repeat(32),
  logo_framed: true,
  logo_rounded: false,
  favicon_mode: 'custom',
  favicon_sha256: 'cd'.repeat(32),
}
const documents = [
  { id: 'terms', title: 'Terms of use', url: 'https://example.com/terms?a=1&b=2' },
  { id: 'privacy', title: 'Privacy', url: 'https://example.com/privacy' },
]
const terms: GateTerms = {
  ask_name: true,
  name_label: 'Name on the badge',
  consent_mode: 'checkbox',
  form_style: 'card',
  documents,
  price: { amount_minor: 99_000, currency: 'RUB', period_days: 30 },
  channels: [
    { provider: 'telegram', title: 'North', url: 'https://t.me/north' },
    { provider: 'max', title: 'Юг', url: null },
  ],
}
type Shown = Parameters<typeof gatePage>[0]
const pageOf = (state: GateState, more: Partial<Shown> = {}) =>
  gatePage({ lang: 'en', state, brand: null, terms: noTerms, isOpenToAll: false, to: '/', ...more })
const htmlOf = (state: GateState, more: Partial<Shown> = {}) => pageOf(state, more).body.toString()
const titleOf = (html: string) => /<title>(.*)<\/title>/.exec(html)?.[1]

test('L02: the login page of every state is kept by nobody, may be framed by nobody and runs no script', () => {
  for (const state of states) {
    const { headers, body } = pageOf(state, { brand, terms })
    const fields = new Map(headers.flatMap((name, i) => (i % 2 === 0 ? [[name, headers[i + 1] ?? ''] as const] : [])))
    expect(fields.get('Cache-Control')).toBe('no-store')
    expect(fields.get('X-Robots-Tag')).toBe('noindex')
    expect(fields.get('X-Content-Type-Options')).toBe('nosniff')
    expect(fields.get('Referrer-Policy')).toBe('same-origin')
    const policy = fields.get('Content-Security-Policy')
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-/)
    expect(policy).toContain("form-action 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('script-src')
    expect(body.toString()).not.toContain('<script')
  }
})

test.each([
  [{ kind: 'password' }, 401],
  [{ kind: 'password', error: 'wrong' }, 401],
  [{ kind: 'password', error: 'full' }, 401],
  [{ ...code, error: 'expired' }, 401],
  [{ kind: 'email', error: 'wait' }, 429],
  [{ kind: 'password', error: 'origin' }, 403],
  [{ kind: 'ended' }, 401],
  [{ kind: 'logout' }, 200],
  [{ kind: 'members' }, 401],
  [{ kind: 'register', email, name: '' }, 401],
  [{ kind: 'consent' }, 401],
  [{ kind: 'pending' }, 401],
  [{ kind: 'seats' }, 401],
  [{ kind: 'rejected' }, 403],
  [{ kind: 'blocked' }, 403],
  [{ kind: 'pay', email }, 402],
  [{ kind: 'pay', email, error: 'wait' }, 429],
  [{ kind: 'pay_owner', email }, 402],
  [{ kind: 'unpaid' }, 402],
  [{ kind: 'paying', url: null }, 200],
  [{ kind: 'subscribers' }, 401],
  [messenger, 401],
  [{ kind: 'stranger' }, 403],
  [{ kind: 'away' }, 503],
] as const)('L02: the status of %o is %i', (state, status) => {
  expect(pageOf(state).status).toBe(status)
})

test('L02: the title of the window tells every state and every error apart, in both languages', () => {
  const all = [...asked, ...told]
  const titles = pageLanguages.flatMap((lang) => all.map((state) => titleOf(htmlOf(state, { lang }))))
  expect(new Set(titles).size).toBe(titles.length)
  for (const lang of pageLanguages)
    for (const state of asked) {
      const withErrors = errors.map((error) => titleOf(htmlOf({ ...state, error }, { lang })))
      expect(new Set(withErrors).size).toBe(errors.length)
    }
  expect(titleOf(htmlOf({ kind: 'password' }, { brand }))).toBe('Enter the password – Ada’s studio')
})

test('L02: the form posts to the path of its step and carries the page that was asked for', () => {
  const actions = asked.map((state) => /action="([^"]+)"/.exec(htmlOf(state, { terms, to: '/a?b=1&c="2"' }))?.[1])
  expect(actions).toEqual([
    '/__svc/login',
    ...Array(3).fill('/__svc/login/email'),
    '/__svc/login/code',
    '/__svc/register',
    '/__svc/consent',
    '/__svc/pay',
    '/__svc/login/messenger',
    '/__svc/login/messenger/code',
  ])
  for (const state of asked) {
    expect(htmlOf(state, { terms, to: '/a?b=1&c="2"' })).toContain('name="to" value="/a?b=1&amp;c=&quot;2&quot;"')
    for (const to of [`/${'a'.repeat(3000)}`, '//host', '/\\\\host', 'javascript:alert(1)', ''])
      expect(htmlOf(state, { terms, to })).toContain('name="to" value="/"')
  }
})

test('E02: the form with the code carries the address and the challenge, and lets ask for a new code', () => {
  const html = htmlOf(code)
  expect(html).toContain('name="challenge" value="c0ffee"')
  expect(html).toContain('name="email" value="ada@example.com"')
  expect(html).toContain('<form method="post" action="/__svc/login/email">')
  expect(html).toContain('autocomplete="one-time-code" inputmode="numeric"')
})

test('L02: an error is announced, and describes the field', () => {
  const html = htmlOf({ kind: 'password', error: 'wrong' })
  expect(html).toContain('<p class="error" id="error" role="alert">The password is not right.')
  expect(html).toContain('aria-describedby="error hint" aria-invalid="true"')
  expect(htmlOf({ kind: 'password', error: 'wait' })).toContain('aria-describedby="error hint" required')
  expect(htmlOf({ kind: 'password' })).not.toContain('role="alert"')
})

test('L09: the page shows the title, the text and the images of the brand', () => {
  const html = htmlOf({ kind: 'password' }, { brand })
  expect(html).toContain('<h1 dir="auto">Ada’s studio</h1>')
  expect(html).toContain('For clients.\nAsk us for the password.')
  expect(html).toContain('<img class="logo framed" src="/__svc/brand/logo.webp?v=abababababababab" alt="">')
  expect(html).toContain('<link rel="icon" href="/__svc/brand/favicon.webp?v=cdcdcdcdcdcdcdcd">')
  expect(htmlOf({ kind: 'password' }, { brand: { ...brand, favicon_mode: 'site' } })).not.toContain('rel="icon"')
  expect(htmlOf({ kind: 'password' }, { brand: { ...brand, favicon_mode: 'none' } })).toContain('<link rel="icon" href="data:,">')
})

test('L09: what the owner and the visitor wrote is text, whatever it is', () => {
  const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'{email}$&`
  const hostile = { ...brand, title: evil, description: evil }
  const termsWith = (text: string): GateTerms => ({
    ...terms,
    name_label: text,
    documents: [{ id: text, title: text, url: `https://x.test/?${text}` }],
    channels: [{ provider: 'max', title: text, url: `https://max.ru/${text}` }],
  })
  const tagsOf = (html: string) => [...html.matchAll(/<([a-z0-9]+)/g)].map(([, name]) => name)
  const shown = (text: string) =>
    [...asked, ...told]
      .map((state) => {
        const own: GateState = Object.assign({}, state, {
          email: text,
          challenge: text,
          name: text,
          url: `https://x.test/${text}`,
        })
        return htmlOf(own, { brand: { ...hostile, title: text, description: text }, terms: termsWith(text), to: text })
      })
      .join('\n')
  expect(tagsOf(shown(evil))).toEqual(tagsOf(shown('plain')))
  expect(parseDocument(shown(evil)).children.length).toBe(parseDocument(shown('plain')).children.length)
  expect(shown(evil)).not.toContain('<script')
})

test('M08: every page before the login links to the documents, in new tabs that learn nothing', () => {
  const link =
    '<a dir="auto" href="https://example.com/terms?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">Terms of use<span class="unseen"> (opens in a new tab)</span></a>'
  for (const state of [...asked, ...told]) {
    expect([state.kind, htmlOf(state, { terms }).split(link).length]).toEqual([state.kind, 2])
    expect(htmlOf(state, { lang: 'ru', terms })).toContain('(откроется в новой вкладке)')
  }
})

test.each(['http://example.com/a', 'javascript:alert(1)', 'data:text/html,x', '/terms', ''])('M08: %s is no link', (url) => {
  const html = htmlOf(
    { kind: 'members' },
    { terms: { ...terms, documents: [{ id: 'terms', title: 'Terms', url }], channels: [] } },
  )
  expect(html).toContain('<li><bdi>Terms</bdi></li>')
  expect(html).not.toContain('<a ')
})

test('M06: the registration asks for what the owner wants to know', () => {
  const register = { kind: 'register', email, name: 'Ada "L"' } as const
  const html = htmlOf(register, { terms })
  expect(html).toContain('<label for="field">Name on the badge</label>')
  expect(html).toContain('name="name" type="text" dir="auto" autocomplete="name"')
  expect(html).toContain('value="Ada &quot;L&quot;"')
  expect(htmlOf(register, { terms: { ...terms, name_label: null } })).toContain('<label for="field">Your name</label>')
  expect(htmlOf(register, { terms: { ...terms, ask_name: false } })).not.toContain('id="field"')
})

test('M06: who has nothing to tick is told on the first page', () => {
  for (const kind of ['members', 'paid'] as const) {
    const of = (consent_mode: GateTerms['consent_mode']) => htmlOf({ kind }, { terms: { ...terms, consent_mode } })
    expect(of('notice')).toMatch(/By continuing, you agree to <a .*Terms of use.*<button>/s)
    expect([of('checkbox'), of('none')].map((html) => html.includes('you agree'))).toEqual([false, false])
  }
})

test('M06: members consent with a box, with the button, or not at all', () => {
  for (const state of [{ kind: 'consent' }, { kind: 'register', email, name: '' }] as const) {
    const of = (consent_mode: GateTerms['consent_mode'], more = documents) =>
      htmlOf(state, { terms: { ...terms, consent_mode, documents: more } })
    expect(of('checkbox')).toContain('<input id="consent" name="consent" type="checkbox" value="terms privacy" required>')
    expect(of('checkbox')).toMatch(/<label for="consent">I agree to <a .*Terms of use.*<\/a> and <a .*Privacy.*<\/a><\/label>/)
    expect(of('checkbox', [])).toContain('type="checkbox" value="yes" required>')
    expect(of('notice')).toMatch(/By continuing, you agree to <a .*Terms of use/s)
    expect(of('none')).not.toContain('name="consent"')
    expect(of('checkbox', [])).toContain('I agree that this site stores what I have entered')
  }
})

test('M06: the page says what is missing in a registration', () => {
  const of = (name: string) => htmlOf({ kind: 'register', email, name, error: 'wrong' }, { terms })
  for (const wrong of [' ', 'a'.repeat(81)])
    expect(of(wrong)).toMatch(/Enter your name, in at most 80 characters\.<\/p>.*id="field"[^>]*aria-invalid/s)
  expect(of('Ada')).toMatch(/Tick the box to agree\.<\/p>.*id="consent"[^>]*aria-invalid/s)
})

test('M06: the forms stand in a frame, or do not', () => {
  expect(htmlOf({ kind: 'members' }, { terms })).toContain('<div class="card">')
  expect(htmlOf({ kind: 'members' }, { terms: { ...terms, form_style: 'plain' } })).not.toContain('<div class="card">')
})

test.each([
  ['en', { amount_minor: 99_000, currency: 'RUB', period_days: 30 }, 'Access costs <strong>RUB 990</strong> for 30 days.'],
  ['ru', { amount_minor: 99_050, currency: 'RUB', period_days: 1 }, 'Доступ на 1 день стоит <strong>990,50 ₽</strong>.'],
  ['ru', { amount_minor: 990, currency: 'JPY', period_days: 2 }, 'Доступ на 2 дня стоит <strong>990 ¥</strong>.'],
  ['ru', { amount_minor: 1500, currency: 'KWD', period_days: 5 }, 'Доступ на 5 дней стоит <strong>1,500 KWD</strong>.'],
  ['en', { amount_minor: 1500, currency: 'USD', period_days: null }, 'Access costs <strong>$15</strong>, and does not end.'],
] as const)('M10: the price in %s of %o', (lang, price, text) => {
  for (const state of [{ kind: 'pay', email }, { kind: 'pay_owner', email }, { kind: 'paid' }] as const) {
    expect(htmlOf(state, { lang, terms: { ...terms, price } }).replaceAll(/[\u00a0\u202f]/g, ' ')).toContain(text)
    expect(htmlOf(state, { lang })).not.toContain('class="price"')
  }
})

test('M10: the page of a payment goes on by itself: to the provider, or to look for news', () => {
  const refreshOf = (url: string | null) => {
    const { headers, body } = pageOf({ kind: 'paying', url })
    return [headers[headers.indexOf('Refresh') + 1], /<a class="button" href="([^"]*)"/.exec(body.toString())?.[1]]
  }
  expect(refreshOf('https://pay.example/ü?a=1&b=2')).toEqual([
    '0; url=https://pay.example/%C3%BC?a=1&b=2',
    'https://pay.example/%C3%BC?a=1&amp;b=2',
  ])
  for (const url of [null, 'javascript:alert(1)', 'data:text/html,x'])
    expect(refreshOf(url)).toEqual(['2; url=/__svc/payment', '/__svc/payment'])
  for (const state of [...asked, ...told.filter(({ kind }) => kind !== 'paying')])
    expect(pageOf(state).headers).not.toContain('Refresh')
})

test('M02: the page for subscribers names the channels, and has a button for each messenger', () => {
  const html = htmlOf({ kind: 'subscribers' }, { terms })
  expect(html).toMatch(/href="https:\/\/t\.me\/north".*<bdi>Юг<\/bdi> <span>MAX<\/span>/s)
  expect([...html.matchAll(/name="provider" value="(\w+)"/g)].map(([, name]) => name)).toEqual(['telegram', 'max'])
  const [telegram] = terms.channels
  const one = htmlOf({ kind: 'subscribers' }, { terms: { ...terms, channels: telegram ? [telegram] : [] } })
  expect(one).toContain('Those who subscribe to this channel')
  expect(one).not.toContain('Log in with MAX')
})

test('M02: the page for the code of a bot links to the bot, and asks for the code', () => {
  const html = htmlOf(messenger)
  expect(html).toContain('href="https://t.me/a_bot?start=abc" target="_blank" rel="noopener noreferrer">Open Telegram<')
  expect(html).toContain('name="challenge" value="c0ffee"')
  expect(html).toContain('autocomplete="one-time-code"')
})

test('no page shows a placeholder', () => {
  for (const lang of pageLanguages)
    for (const state of [...asked, ...told])
      expect(htmlOf(state, { lang, terms }).replace(/<style>.*<\/style>/s, '')).not.toMatch(/[{}]/)
})

test('M03: who registers gets a code in any case, and is told so', () => {
  expect(htmlOf(code, { isOpenToAll: true })).toContain('A code for <bdi>ada@example.com</bdi> is on its way.')
  expect(htmlOf(code)).toContain('If <bdi>ada@example.com</bdi> may visit the site')
})
