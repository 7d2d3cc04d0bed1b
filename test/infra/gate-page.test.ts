import { parseDocument } from 'htmlparser2'
import { expect, test } from 'vitest'
import { pageLanguages } from '../../core/page-language.ts'
import { type GateBrand, gatePage } from '../../infra/gate-page.ts'
import type { GateError, GateState } from '../../infra/gate-state.ts'

const errors: readonly GateError[] = ['wrong', 'wait', 'full', 'expired', 'origin']
const code = { kind: 'code', email: 'ada@example.com', challenge: 'c0ffee' } as const
const asked: readonly Extract<GateState, { readonly error?: GateError }>[] = [{ kind: 'password' }, { kind: 'email' }, code]
const states: readonly GateState[] = [
  ...asked,
  ...asked.flatMap((state) => errors.map((error) => ({ ...state, error }))),
  { kind: 'ended' },
  { kind: 'logout' },
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
const htmlOf = (state: GateState, more: Partial<Parameters<typeof gatePage>[0]> = {}) =>
  gatePage({ lang: 'en', state, brand: null, to: '/', ...more }).body.toString()
const titleOf = (html: string) => /<title>(.*)<\/title>/.exec(html)?.[1]

test('L02: the login page of every state is kept by nobody, may be framed by nobody and runs no script', () => {
  for (const state of states) {
    const { headers, body } = gatePage({ lang: 'en', state, brand, to: '/' })
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
] as const)('L02: the status of %o is %i', (state, status) => {
  expect(gatePage({ lang: 'en', state, brand: null, to: '/' }).status).toBe(status)
})

test('L02: the title of the window tells every state and every error apart, in both languages', () => {
  const titles = pageLanguages.flatMap((lang) => asked.map((state) => titleOf(htmlOf(state, { lang }))))
  expect(new Set(titles).size).toBe(titles.length)
  for (const lang of pageLanguages)
    for (const state of asked) {
      const withErrors = errors.map((error) => titleOf(htmlOf({ ...state, error }, { lang })))
      expect(new Set(withErrors).size).toBe(errors.length)
    }
  expect(titleOf(htmlOf({ kind: 'password' }, { brand }))).toBe('Enter the password – Ada’s studio')
})

test('L02: the form posts to the path of its step and carries the page that was asked for', () => {
  const actions = asked.map((state) => /action="([^"]+)"/.exec(htmlOf(state, { to: '/a?b=1&c="2"' }))?.[1])
  expect(actions).toEqual(['/__svc/login', '/__svc/login/email', '/__svc/login/code'])
  for (const state of asked) {
    expect(htmlOf(state, { to: '/a?b=1&c="2"' })).toContain('name="to" value="/a?b=1&amp;c=&quot;2&quot;"')
    for (const to of [`/${'a'.repeat(3000)}`, '//host', '/\\\\host', 'javascript:alert(1)', ''])
      expect(htmlOf(state, { to })).toContain('name="to" value="/"')
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
  const tagsOf = (html: string) => [...html.matchAll(/<([a-z0-9]+)/g)].map(([, name]) => name)
  const shown = (text: string) =>
    htmlOf({ ...code, email: text, challenge: text }, { brand: { ...hostile, title: text, description: text }, to: text })
  expect(tagsOf(shown(evil))).toEqual(tagsOf(shown('plain')))
  expect(parseDocument(shown(evil)).children.length).toBe(parseDocument(shown('plain')).children.length)
  expect(shown(evil)).not.toContain('<script')
})
