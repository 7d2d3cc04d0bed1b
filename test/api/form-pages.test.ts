import { parseDocument } from 'htmlparser2'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { webPagePolicy } from '../../infra/web-page.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, type PostOptions } from './form-site.ts'

// What browsers without scripts see after a post.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeFormSite(w, owner)
})

const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const submit = (fields: object, options: PostOptions = {}) => site.post(fields, { accept: html, ...options })

test.each([
  ['en-GB,en;q=0.9', 'en', 'Thank you'],
  ['ru-RU,ru;q=0.9,en;q=0.5', 'ru', 'Спасибо'],
  ['fr', 'en', 'Thank you'],
  ['ru,'.repeat(5000), 'en', 'Thank you'],
])('a thank-you page for Accept-Language %.30s', async (languages, lang, text) => {
  const { status, headers, body } = await submit({ a: '<b>' }, { headers: { 'accept-language': languages } })
  expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(body).toContain(`<html lang="${lang}">`)
  expect(body).toContain(text)
  expect(body).toContain(`<a href="${site.url}/">`)
})

test('a refusal is a page with its status and code', async () => {
  const { status, headers, body } = await submit({}, { origin: 'https://evil.example', headers: { 'accept-language': 'ru' } })
  expect([status, headers.get('plinth-error')]).toEqual([403, 'origin_not_allowed'])
  expect(body).toContain('Сообщение не отправлено')
  expect(body).not.toContain('evil')
})

test('E35: _next leads to a page of the site, for accepted, dropped and duplicate posts alike', async () => {
  const post = { _next: '/thanks?x=1', _request_id: crypto.randomUUID() }
  for (const fields of [post, post, { ...post, _hp_x: 'me' }]) {
    const { status, headers } = await submit(fields)
    expect([status, headers.get('location')]).toEqual([303, `${site.url}/thanks?x=1`])
  }
  expect((await submit({ _next: `${site.url}/a` })).headers.get('location')).toBe(`${site.url}/a`)
  expect((await site.post({ _next: '/thanks' })).body).toEqual({ ok: true })
})

test.each([
  '//evil.example',
  '/\\evil.example',
  'https://evil.example/',
  'javascript:alert(1)',
  '/\t/evil.example',
  'x',
  '',
  `/${'a'.repeat(3000)}`,
])('E35: _next=%.40s is ignored', async (next) => {
  const { status, headers } = await submit({ _next: next })
  expect([status, headers.get('location')]).toEqual([200, null])
})

test('E35: nothing in _next adds a header', async () => {
  const { headers } = await submit({ _next: '/a\r\nset-cookie: x=1' })
  expect([headers.get('location'), headers.get('set-cookie')]).toEqual([`${site.url}/aset-cookie:%20x=1`, null])
  expect((await submit({ _next: `http://user:pw@${new URL(site.url).host}/` })).status).toBe(200)
})

/** Each would run in some place of a page that it is not escaped for. */
const payloads = [
  '<script>alert(1)</script>',
  '"><svg onload=alert(1)>',
  "'><img src=x onerror=alert(1)>",
  '</title></style></textarea><script>alert(1)</script>',
  '<!--><script>alert(1)</script>',
  '&lt;script&gt;&#60;script&#62;',
  '<a href="javascript:alert(1)">x</a>',
  '<meta http-equiv=refresh content="0;url=javascript:alert(1)">',
  '<base href="https://evil.example/"><form action=x><input formaction=javascript:alert(1)>',
  '\ud83e\udd2b<math><mtext></p><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
  'javascript:alert(1)',
  'data:text/html,<script>alert(1)</script>',
]

interface Element {
  readonly name: string
  readonly attribs: Readonly<Record<string, string>>
}

/** Every element of a page. */
function elementsOf(html: string): Element[] {
  const found: Element[] = []
  const walk = (nodes: ReturnType<typeof parseDocument>['childNodes']) => {
    for (const node of nodes) {
      if ('attribs' in node) found.push(node)
      if ('childNodes' in node) walk(node.childNodes)
    }
  }
  walk(parseDocument(html).childNodes)
  return found
}

/** Fails when the page has anything but its own texts and at most one link, which leads to the site. */
function expectHarmless({ headers, body }: { headers: Headers; body: string }): void {
  expect(headers.get('content-security-policy')).toBe(webPagePolicy)
  expect(webPagePolicy).toContain("default-src 'none'")
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  const elements = elementsOf(body)
  const allowed = ['html', 'head', 'meta', 'title', 'style', 'body', 'main', 'p', 'h1', 'a']
  expect(elements.map(({ name }) => name).filter((name) => !allowed.includes(name))).toEqual([])
  const attributes = elements.flatMap(({ attribs }) => Object.keys(attribs))
  const harmless = ['lang', 'charset', 'name', 'content', 'class', 'href']
  expect(attributes.filter((name) => !harmless.includes(name))).toEqual([])
  expect(elements.filter(({ name }) => name === 'style')).toHaveLength(1)
  const links = elements.filter(({ name }) => name === 'a').map(({ attribs }) => attribs['href'])
  expect(links.filter((link) => link !== `${site.url}/`)).toEqual([])
}

test.each(payloads)('76: no page shows or runs what was sent: %s', async (payload) => {
  const fields = { [payload]: payload, name: payload }
  const sent: PostOptions[] = [
    {},
    { headers: { 'accept-language': 'ru' } },
    { origin: 'null', headers: { 'user-agent': encodeURI(payload) } },
    { origin: `https://${encodeURI(payload)}` },
    { type: `text/${encodeURI(payload)}` },
    { headers: { 'content-encoding': encodeURI(payload) } },
  ]
  for (const options of sent) {
    w.advance(3000)
    const answer = await submit(fields, options)
    expectHarmless(answer)
    expect(answer.body).not.toContain('alert')
  }
  expectHarmless(await submit({ ...fields, _next: payload }))
  const { status, headers } = await submit({ ...fields, _next: `/${payload}` })
  expect([200, 303]).toContain(status)
  if (status === 303) expect(new URL(headers.get('location') ?? '').origin).toBe(site.url)
})

test('76: lists and exports of submissions are not pages', async () => {
  await site.post(Object.fromEntries(payloads.map((payload) => [payload, payload])))
  for (const path of ['', '/export?format=csv', '/export?format=jsonl']) {
    const { status, headers, body } = await w.call(`GET /api/v1/forms/submissions${path}`, {
      key: owner.key,
      headers: { accept: 'text/html' },
    })
    expect([path, status, headers.get('x-content-type-options')]).toEqual([path, 200, 'nosniff'])
    expect(headers.get('content-type')).toMatch(/^(?:application\/json|text\/csv|application\/x-ndjson)/)
    if (path !== '') expect(headers.get('content-disposition')).toMatch(/^attachment; filename="submissions\.(?:csv|jsonl)"$/)
    expect(JSON.stringify(body)).toContain('onerror')
  }
})
